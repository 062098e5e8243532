//! The integration tests, one binary: the program run in temporary directories, and the rules of the house.

mod architecture;
mod baselines;
mod check;
mod crossval;
mod demo;
mod engine;
mod export;
mod families;
mod golden;
mod handmade;
mod ingest;
mod inspect;
mod interface;
mod interrupted;
mod malformed;
mod memory;
mod model;
mod pooled;
mod predict;
mod raw;
mod real_data;
mod reference;
mod report;
mod reproduce;
mod train;
mod util;
