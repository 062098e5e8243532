//! A grid, or a torus on request: each node is connected to the next in its row and in its column.
//! For benchmarks, and as a graph with known distances; it has no labels.

use crate::content::{Content, Features};
use crate::error::Result;
use crate::synthetic::require_nodes;

/// Rows.
pub const ROWS: u64 = 100;
/// Columns.
pub const COLUMNS: u64 = 100;

/// Nodes per chunk of edges.
const CHUNK: u64 = 1 << 16;
/// Minimum length of a row or column that is closed to a ring; below, the closing edge already
/// exists.
const MIN_RING: u64 = 3;

/// Options of `ignn generate grid`.
#[derive(Clone, Debug, PartialEq)]
pub struct GridOptions {
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub columns: u64,
    /// Connect the ends of rows and columns (of at least three nodes).
    pub torus: bool,
    /// Give each node its row and column, scaled to [0, 1], as two features.
    pub coordinates: bool,
}

impl Default for GridOptions {
    fn default() -> Self {
        Self { rows: ROWS, columns: COLUMNS, torus: false, coordinates: false }
    }
}

/// A grid with checked options; its nodes are `row * columns + column`.
pub struct Grid {
    options: GridOptions,
    nodes: u64,
}

impl Grid {
    /// Checks the options.
    pub fn new(options: &GridOptions) -> Result<Self> {
        let nodes = require_nodes("generate grid", options.rows.checked_mul(options.columns))?;
        Ok(Self { options: options.clone(), nodes })
    }

    /// The next position along a side, if there is one.
    fn next(&self, place: u64, side: u64) -> Option<u64> {
        match place + 1 {
            next if next < side => Some(next),
            _ if self.options.torus && side >= MIN_RING => Some(0),
            _ => None,
        }
    }
}

impl Content for Grid {
    fn nodes(&self) -> u64 {
        self.nodes
    }

    fn edge_chunks(&self) -> u64 {
        self.nodes.div_ceil(CHUNK)
    }

    fn edge_chunk(&self, chunk: u64, edges: &mut Vec<[u32; 2]>) {
        let columns = self.options.columns;
        for node in chunk * CHUNK..self.nodes.min((chunk + 1) * CHUNK) {
            let (row, column) = (node / columns, node % columns);
            let right = self.next(column, columns).map(|column| row * columns + column);
            let below = self.next(row, self.options.rows).map(|row| row * columns + column);
            edges.extend(right.into_iter().chain(below).map(|other| [node as u32, other as u32]));
        }
    }

    fn edges(&self) -> Option<u64> {
        let GridOptions { rows, columns, torus, .. } = self.options;
        let along = |side: u64| if torus && side >= MIN_RING { side } else { side - 1 };
        Some(rows * along(columns) + columns * along(rows))
    }

    fn features(&self) -> Option<Features<'_>> {
        let scaled = |place: u64, side: u64| place as f32 / (side - 1).max(1) as f32;
        let fill = move |first: u64, rows: &mut [f32]| {
            for (node, row) in (first..).zip(rows.chunks_exact_mut(2)) {
                row[0] = scaled(node / self.options.columns, self.options.rows);
                row[1] = scaled(node % self.options.columns, self.options.columns);
            }
        };
        self.options.coordinates.then(|| Features::Dense { columns: 2, fill: Box::new(fill) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(rows: u64, columns: u64, torus: bool) -> Vec<[u32; 2]> {
        let grid = Grid::new(&GridOptions { rows, columns, torus, coordinates: true }).unwrap();
        let mut edges = Vec::new();
        (0..grid.edge_chunks()).for_each(|chunk| grid.edge_chunk(chunk, &mut edges));
        assert_eq!(grid.edges(), Some(edges.len() as u64));
        edges
    }

    #[test]
    fn grids_and_tori() {
        assert_eq!(edges(2, 2, false), [[0, 1], [0, 2], [1, 3], [2, 3]]);
        assert_eq!(edges(2, 2, true), edges(2, 2, false));
        assert_eq!(edges(1, 3, true), [[0, 1], [1, 2], [2, 0]]);
        assert_eq!(edges(300, 400, true).len(), 2 * 300 * 400);
        let grid = Grid::new(&GridOptions { rows: 3, columns: 2, torus: false, coordinates: true })
            .unwrap();
        let Some(Features::Dense { columns: 2, fill }) = grid.features() else { panic!() };
        let mut row = [0.0; 2];
        fill(3, &mut row);
        assert_eq!(row, [0.5, 1.0]);
        let error =
            Grid::new(&GridOptions { rows: 1 << 20, columns: 1 << 20, ..GridOptions::default() });
        assert_eq!(
            error.err().unwrap().to_string(),
            "generate grid: 1099511627776 nodes (expected 1 to 4294967295)"
        );
    }
}
