//! Tests of the engine, one binary: gradients, golden cases, model families, and the rules of the
//! house.

mod architecture;
mod baselines;
mod engine;
mod families;
mod golden;
mod kinds;
mod model;
mod pooled;
mod reference;
mod run;
