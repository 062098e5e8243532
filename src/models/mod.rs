//! Models: their named parameters and the file that holds them.
//! They wire layers of `nn` together; how they are trained is for `train`.

pub mod file;
