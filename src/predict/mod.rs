//! Model and dataset to predictions and embeddings.
