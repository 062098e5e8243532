#![no_main]
ignn_fuzz::fuzz!("run_files");
