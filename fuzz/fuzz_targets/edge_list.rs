#![no_main]
ignn_fuzz::fuzz!("edge_list");
