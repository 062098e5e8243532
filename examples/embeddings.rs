//! Writes the states that a trained model computes for every node to a Parquet file, to be used
//! elsewhere: `pandas.read_parquet("embeddings.parquet")`.
//!
//!     cargo run --release --example embeddings -- embeddings.parquet

mod communities;

use ignn::prelude::*;

/// Trains a model and writes its states; labels are not written.
fn embed(graph: &Graph, file: &std::path::Path) -> ignn::Result<Embeddings> {
    let mut config = Config::default();
    (config.model.state, config.train.epochs) = (vec![8], 40);
    let model = Trainer::new(graph, config)?.fit()?.model;
    let embeddings = model.embed(graph)?;
    embeddings.write(file)?;
    Ok(embeddings)
}

fn main() -> ignn::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "embeddings.parquet".into());
    let embeddings = embed(&communities::graph(800, 1)?, file.as_ref())?;
    println!("{file}: {} rows of {}", embeddings.view().rows(), embeddings.view().cols());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn the_file_has_one_row_per_node_and_neighbours_are_close() {
        let graph = communities::graph(400, 5).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("embeddings.parquet");
        let embeddings = embed(&graph, &file).unwrap();

        let reader = SerializedFileReader::new(std::fs::File::open(&file).unwrap()).unwrap();
        let metadata = reader.metadata().file_metadata();
        let columns: Vec<&str> =
            metadata.schema_descr().columns().iter().map(|column| column.name()).collect();
        assert_eq!(columns, ["id", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"]);
        assert_eq!(metadata.num_rows(), 400);

        // Nodes of one community (4 apart) are closer than nodes of two.
        let distance = |a: usize, b: usize| -> f32 {
            let pairs = embeddings.row(a).iter().zip(embeddings.row(b));
            pairs.map(|(x, y)| (x - y) * (x - y)).sum()
        };
        let sum = |apart: usize| -> f32 { (0..300).map(|node| distance(node, node + apart)).sum() };
        assert!(sum(4) < 0.5 * sum(1), "{} and {}", sum(4), sum(1));
    }
}
