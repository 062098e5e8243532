//! Tests that run the binary in temporary directories.

mod baselines;
mod bench;
mod check;
mod crossval;
mod damaged;
mod demo;
mod export;
mod handmade;
mod hostile;
mod ingest;
mod inputs;
mod inspect;
mod interface;
mod interrupted;
mod malformed;
mod memory;
mod predict;
mod raw;
mod readme;
mod real_data;
mod report;
mod reproduce;
mod safety;
mod sandbox;
mod tables;
mod train;
