#![no_main]
ignn_fuzz::fuzz!("node_table");
