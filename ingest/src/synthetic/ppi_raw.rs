//! Writes many graphs in the published format of PPI, with four files for each part `train`,
//! `valid` and `test`: `PART_graph.json`, `PART_feats.npy`, `PART_labels.npy`, `PART_graph_id.npy`.
//! [`crate::source::graphsage`] reads it.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use ignn_format::graphs::Graphs;
use ignn_format::labels::Labels;

use crate::collection::Collection;
use crate::error::{IngestError, Result};
use crate::source::graphsage::PART_FILES;
use crate::synthetic::npy;
use crate::synthetic::raw::create;

/// Writes a dataset whose graphs are ordered by part and whose nodes have plain features and
/// multi-labels.
pub fn write(set: &Collection, graphs: &Graphs, directory: &Path) -> Result<()> {
    let parts = graphs.splits.first().map_or(&[][..], |split| &split.of);
    let mut edges = set.edges.clone();
    edges.sort_unstable();
    for (part, name) in (0u8..).zip(PART_FILES) {
        let [begin, end] = [part, part + 1].map(|part| parts.partition_point(|&of| of < part));
        let nodes = graphs.first_node[begin]..graphs.first_node[end];
        let count = nodes.end - nodes.start;
        let file = |what: &str| directory.join(format!("{name}_{what}"));

        let [first, last] = [nodes.start, nodes.end]
            .map(|node| edges.partition_point(|[u, _]| u64::from(*u) < node));
        write_graph(&file("graph.json"), &nodes, &edges[first..last])?;
        let columns = set.features.plain_columns;
        let features =
            &set.features.plain[nodes.start as usize * columns..nodes.end as usize * columns];
        npy::write(
            &file("feats.npy"),
            &[count, columns as u64],
            features.iter().map(|&x| f64::from(x)),
        )?;
        if let Some(Labels::Multi { classes, offsets, of, .. }) = &set.labels {
            let marks = nodes.clone().flat_map(|node| {
                let mut marks = vec![0i64; classes.len()];
                let on = offsets[node as usize] as usize..offsets[node as usize + 1] as usize;
                of[on].iter().for_each(|&class| marks[class as usize] = 1);
                marks
            });
            npy::write(&file("labels.npy"), &[count, classes.len() as u64], marks)?;
        }
        // Graphs are numbered from 1 throughout all parts.
        let ids = (begin..end).flat_map(|graph| {
            let size = graphs.first_node[graph + 1] - graphs.first_node[graph];
            std::iter::repeat_n(graph as i64 + 1, size as usize)
        });
        npy::write(&file("graph_id.npy"), &[count], ids)?;
    }
    Ok(())
}

/// Node-link JSON, as networkx writes it; nodes are numbered from 0 within the part.
fn write_graph(path: &Path, nodes: &Range<u64>, edges: &[[u32; 2]]) -> Result<()> {
    let mut out = create(path)?;
    let mut write = || -> io::Result<()> {
        out.write_all(br#"{"directed": false, "multigraph": false, "graph": {}, "nodes": ["#)?;
        for node in 0..nodes.end - nodes.start {
            write!(out, "{}{{\"id\": {node}}}", if node == 0 { "" } else { ", " })?;
        }
        out.write_all(br#"], "links": ["#)?;
        for (at, pair) in edges.iter().enumerate() {
            let [source, target] = pair.map(|node| u64::from(node) - nodes.start);
            let comma = if at == 0 { "" } else { ", " };
            write!(out, "{comma}{{\"source\": {source}, \"target\": {target}}}")?;
        }
        out.write_all(b"]}\n")?;
        out.flush()
    };
    write().map_err(IngestError::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Context, Recorder};
    use crate::source::graphsage;
    use crate::synthetic::ppi::{PpiOptions, generate};

    #[test]
    fn what_is_written_is_read_back() {
        let context =
            Context { threads: 2, memory: 1 << 30, seed: 7, observer: &Recorder::default() };
        let set = generate(&PpiOptions { scale: 0.08, ..PpiOptions::default() }, &context).unwrap();
        let dir = tempfile::tempdir().unwrap();
        write(&set, set.graphs.as_ref().unwrap(), dir.path()).unwrap();
        let names = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 12);
        let head = std::fs::read_to_string(dir.path().join("valid_graph.json")).unwrap();
        assert!(head.starts_with(
            r#"{"directed": false, "multigraph": false, "graph": {}, "nodes": [{"id": 0}, {"id": 1}, "#
        ));
        let back = graphsage::read(dir.path()).unwrap().collection;
        assert!(back == set);
    }
}
