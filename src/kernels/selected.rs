//! A block-diagonal operator restricted to some of its graphs: the stored arrays, read through a
//! [`Selection`]. No entry is copied; it owns one offset per row.

use super::{AdjacencyError, AdjacencyRef, Selection};

/// An operator over a selection; kernels take its [`Selected::view`].
#[derive(Clone, Debug)]
pub struct Selected<'a> {
    stored: AdjacencyRef<'a>,
    selection: &'a Selection,
    /// Entries before each row.
    offsets: Vec<u64>,
}

impl<'a> Selected<'a> {
    /// Checks that the entries of each graph stay inside it, in one pass over its neighbours.
    pub(super) fn new(
        stored: AdjacencyRef<'a>,
        selection: &'a Selection,
    ) -> Result<Self, AdjacencyError> {
        let wrong = |what, found: u64, expected| {
            Err(AdjacencyError { relation: "adjacency".into(), what, found, expected })
        };
        let rows = stored.rows().min(stored.columns());
        let source = selection.source();
        let mut offsets = Vec::with_capacity(source.len() + 1);
        offsets.push(0);
        let mut entries = 0;
        for pair in selection.first_row().windows(2) {
            let graph = &source[pair[0]..pair[1]];
            let (Some(&first), Some(&last)) = (graph.first(), graph.last()) else { continue };
            if last as usize >= rows {
                return wrong("last row of a graph", last.into(), format!("less than {rows}"));
            }
            let places = stored.range(first as usize).start..stored.range(last as usize).end;
            let neighbours = &stored.neighbours()[places];
            // Without early exit the comparison is vectorised.
            let is_inside = |neighbour: u32| neighbour.wrapping_sub(first) <= last - first;
            if !neighbours.iter().fold(true, |all, &neighbour| all & is_inside(neighbour)) {
                let outside = neighbours.iter().find(|&&neighbour| !is_inside(neighbour));
                let outside = outside.copied().unwrap_or_default();
                let expected = format!("{first} to {last}");
                return wrong("neighbour in another graph", outside.into(), expected);
            }
            for &row in graph {
                entries += stored.range(row as usize).len() as u64;
                offsets.push(entries);
            }
        }
        Ok(Self { stored, selection, offsets })
    }

    /// Entries before each row, for an operator that owns them.
    pub(super) fn into_offsets(self) -> Vec<u64> {
        self.offsets
    }

    /// The operator of `selection.rows()` rows and columns.
    pub fn view(&self) -> AdjacencyRef<'_> {
        self.stored.with_rows(self.selection.source(), &self.offsets)
    }
}

#[cfg(test)]
mod tests {
    use super::super::naive::{Operator, Random};
    use super::super::sweep::{self, Sweep, SweepScratch};
    use super::super::{Activation, Derivative, Isa, Norm, PackedWeights, gradient};
    use super::*;
    use crate::dense::Matrix;

    const FIRST_NODE: [u64; 7] = [0, 40, 41, 41, 150, 157, 260];

    /// Blocks of random entries on the diagonal.
    fn block_diagonal(random: &mut Random, parts: usize) -> Operator {
        let rows = FIRST_NODE[FIRST_NODE.len() - 1] as usize;
        let (mut offsets, mut neighbours) = (vec![0], Vec::new());
        for pair in FIRST_NODE.windows(2) {
            let size = (pair[1] - pair[0]) as usize;
            if size == 0 {
                continue;
            }
            let block = Operator::random(random, size, size, 0);
            let start = neighbours.len() as u64;
            neighbours.extend(block.neighbours.iter().map(|&column| column + pair[0] as u32));
            offsets.extend(block.offsets[1..].iter().map(|&end| start + end));
        }
        let entries = neighbours.len();
        Operator {
            columns: rows,
            offsets,
            neighbours,
            values: (parts & 1 != 0).then(|| random.vector(entries)),
            gather_scale: (parts & 2 != 0).then(|| random.vector(rows)),
            row_scale: (parts & 4 != 0).then(|| random.vector(rows)),
        }
    }

    /// The same operator with arrays of its own.
    fn copied(operator: &Operator, selection: &Selection) -> Operator {
        let (mut offsets, mut neighbours, mut values) = (vec![0], Vec::new(), Vec::new());
        for (row, &source) in selection.source().iter().enumerate() {
            for at in operator.view().range(source as usize) {
                neighbours.push((operator.neighbours[at] as usize + row - source as usize) as u32);
                values.extend(operator.values.as_ref().map(|values| values[at]));
            }
            offsets.push(neighbours.len() as u64);
        }
        let scale = |scale: &Option<Vec<f32>>| {
            let pick = |scale: &Vec<f32>| {
                selection.source().iter().map(|&row| scale[row as usize]).collect()
            };
            scale.as_ref().map(pick)
        };
        Operator {
            columns: selection.rows(),
            offsets,
            neighbours,
            values: operator.values.as_ref().map(|_| values),
            gather_scale: scale(&operator.gather_scale),
            row_scale: scale(&operator.row_scale),
        }
    }

    /// Runs on each of two operators and compares.
    fn assert_same<R: PartialEq>(
        of: [AdjacencyRef<'_>; 2],
        what: &str,
        run: impl Fn(AdjacencyRef<'_>) -> R,
    ) {
        assert!(run(of[0]) == run(of[1]), "{what}");
    }

    fn bits(matrix: &Matrix) -> Vec<u32> {
        matrix.view().padded().iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn kernels_give_the_bits_of_a_copied_operator() {
        let graph_sets: [&[usize]; 5] = [&[3], &[0, 1, 2], &[5, 2, 0, 3], &[4, 4, 1, 5], &[]];
        for (seed, width) in [1, 3, 8, 16, 37, 70, 130].into_iter().enumerate() {
            let random = &mut Random(seed as u64);
            let operator = block_diagonal(random, seed + 1);
            for graphs in graph_sets {
                let selection = Selection::of_graphs(&FIRST_NODE, graphs).unwrap();
                let selected = operator.view().select(&selection).unwrap();
                let copied = copied(&operator, &selection);
                let both = [selected.view(), copied.view()];
                let rows = selection.rows();
                assert_same(both, "shape", |a| {
                    (a.rows(), a.columns(), a.nonzeros(), a.offsets().to_vec())
                });
                assert_same(both, "entries", |a| {
                    (0..rows).map(|row| a.entries(row).collect::<Vec<_>>()).collect::<Vec<_>>()
                });
                let (x, input) = (random.matrix(rows, width), random.matrix(rows, width));
                let w = random.matrix(width, width);
                let weights = [PackedWeights::forward(w.view()), PackedWeights::adjoint(w.view())];
                let (u, v) = (random.vector(rows), random.vector(width));
                let norm = Norm { u: Some(&u), v: Some(&v), rows: None };
                let activation = Activation::LeakyRelu(0.3);
                let derivative = Derivative::State { activation, state: input.view() };
                for isa in Isa::available() {
                    type Run<'a> = &'a (dyn Fn(&Sweep<'_>, &mut Matrix) + Sync);
                    let sweep_with = |a: AdjacencyRef<'_>, of: usize, threads, run: Run<'_>| {
                        crate::parallel::with_threads(threads, || {
                            let terms = sweep::terms(&[a], &weights[of..=of]);
                            let blocks = sweep::blocks(&terms);
                            let scratch = SweepScratch::with_widths(&[width], width, isa);
                            let input = input.view().into();
                            let sweep =
                                Sweep { blocks: &blocks, terms: &terms, input, scratch: &scratch };
                            let mut to = Matrix::zeros(rows, width);
                            run(&sweep, &mut to);
                            bits(&to)
                        })
                    };
                    assert_same(both, "forward", |a| {
                        sweep_with(a, 0, 1, &|sweep, to| {
                            sweep.forward(activation, norm, x.view(), to.view_mut());
                        })
                    });
                    assert_same(both, "adjoint", |a| {
                        sweep_with(a, 1, 2, &|sweep, to| {
                            sweep.adjoint(derivative, norm, x.view(), to.view_mut());
                        })
                    });
                }
                assert_same(both, "weight", |a| bits(&gradient::weight(a, x.view(), input.view())));
                assert_same(both, "gather", |a| {
                    let blocks = crate::parallel::RowBlocks::balanced(rows, &[a.offsets()], 2);
                    let mut to = Matrix::zeros(rows, width);
                    gradient::adjacency_times(&blocks, a, x.view(), to.view_mut());
                    bits(&to)
                });
            }
        }
    }

    #[test]
    fn entries_that_leave_their_graph_are_refused() {
        let (offsets, neighbours) = ([0, 1, 3, 4], [1, 0, 2, 2]);
        let adjacency = AdjacencyRef::new(3, &offsets, &neighbours).unwrap();
        let refusal = |graphs: &[std::ops::Range<u64>]| {
            let selection = Selection::new(graphs.iter().cloned()).unwrap();
            let refused = adjacency.select(&selection).map(|_| ()).unwrap_err().to_string();
            refused.strip_suffix("; run `ignn check DIR` for details").unwrap().to_string()
        };
        let leaves = "adjacency: neighbour in another graph";
        assert_eq!(refusal(&[0..2, 2..3]), format!("{leaves} (found 2, expected 0 to 1)"));
        assert_eq!(refusal(&[2..3, 1..3]), format!("{leaves} (found 0, expected 1 to 2)"));
        assert_eq!(
            refusal(std::slice::from_ref(&(0..4))),
            "adjacency: last row of a graph (found 3, expected less than 3)"
        );
        let whole = Selection::new([2..3, 0..3]).unwrap();
        assert_eq!(
            adjacency.select(&whole).unwrap().view().entries(0).collect::<Vec<_>>(),
            [(0, 1.0)]
        );
    }
}
