//! Tests of the engine, one binary: gradients, golden cases, model families, and the rules of the
//! house.

mod architecture;
mod baselines;
mod collapse;
mod damage;
mod engine;
mod families;
mod fuzz_corpus;
mod golden;
mod graph_builder;
mod kinds;
mod model;
mod on_disk;
mod pages;
mod pooled;
mod public_types;
mod ranks;
mod reference;
mod regression;
mod run;
