#![no_main]
ignn_fuzz::fuzz!("matrix_market");
