#![no_main]
ignn_fuzz::fuzz!("spec");
