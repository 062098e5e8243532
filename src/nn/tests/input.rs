//! The input map, dense and sparse, against the plainest loops.

use ignn_format::features::SparseRows;
use proptest::prelude::*;

use super::layer::Both;
use crate::dense::{Matrix, MatrixRef};
use crate::kernels::naive::{self, Random, Rows};
use crate::nn::{Features, Input, InputMap, InputShape, Mapped};
use crate::parallel::with_threads;

/// C = A B, dense.
fn times(a: &Rows, b: &Rows) -> Rows {
    let cols = b.first().map_or(0, Vec::len);
    let entry = |row: &Vec<f64>, k: usize| row.iter().zip(b).map(|(x, b)| x * b[k]).sum();
    a.iter().map(|row| (0..cols).map(|k| entry(row, k)).collect()).collect()
}

fn transposed(a: &Rows) -> Rows {
    (0..a.first().map_or(0, Vec::len)).map(|k| a.iter().map(|row| row[k]).collect()).collect()
}

fn plus(a: &Rows, b: &Rows) -> Rows {
    a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect()
}

fn rows(matrix: &Matrix) -> Rows {
    (0..matrix.rows()).map(|i| matrix.row(i).iter().map(|&x| f64::from(x)).collect()).collect()
}

fn sparse(u: &Matrix) -> Features {
    let mut rows = SparseRows { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
    for i in 0..u.rows() {
        let filled = u.row(i).iter().enumerate().filter(|(_, x)| **x != 0.0);
        for (column, &value) in filled {
            rows.columns.push(column as u32);
            rows.values.push(value);
        }
        rows.offsets.push(rows.columns.len() as u64);
    }
    Features::Sparse { rows, columns: u.cols() }
}

fn shape(map: InputMap, mapped: Mapped, has_bias: bool, width: usize) -> InputShape {
    InputShape { layer: 0, map, mapped, has_bias, width, relations: vec!["edges".into()] }
}

/// B and all gradients of an input map.
fn passes(input: &mut Input, values: &[Matrix], g: &Matrix) -> (Matrix, Vec<Matrix>) {
    // Values of an earlier pass must not affect it.
    let mut b = Matrix::from_fn(g.rows(), g.cols(), |_, _| f32::NAN);
    let views: Vec<MatrixRef<'_>> = values.iter().map(Matrix::view).collect();
    input.forward(&views, b.view_mut());
    let mut gradients: Vec<_> = values
        .iter()
        .map(|value| Matrix::from_fn(value.rows(), value.cols(), |_, _| f32::NAN))
        .collect();
    input.backward(g.view(), &mut gradients.iter_mut().map(Matrix::view_mut).collect::<Vec<_>>());
    (b, gradients)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn sparse_is_dense_is_the_naive_loop(
        seed in any::<u64>(),
        nodes in 1usize..80,
        p in 1usize..40,
        m in 1usize..40,
        map in 0usize..3,
        bias: bool,
    ) {
        let random = &mut Random(seed);
        let graph = Both::random(random, nodes);
        let (operators, a_t) = (graph.operators(), graph.dense());
        let map = [InputMap::Gathered, InputMap::Own, InputMap::Both][map];
        let u = Matrix::from_fn(nodes, p, |_, _| if random.below(3) == 0 { random.float() } else { 0.0 });
        let mut values = vec![random.matrix(m, p)];
        if map == InputMap::Both {
            values.push(random.matrix(m, p));
        }
        if bias {
            values.push(random.matrix(1, m));
        }
        let g = random.matrix(nodes, m);

        let gathered = times(&a_t, &rows(&u));
        let parts = match map {
            InputMap::Gathered => vec![gathered],
            InputMap::Own => vec![rows(&u)],
            InputMap::Both => vec![gathered, rows(&u)],
        };
        let terms = parts.iter().zip(&values).map(|(part, omega)| times(part, &transposed(&rows(omega))));
        let mut expected = terms.reduce(|a, b| plus(&a, &b)).unwrap();
        if bias {
            let row = rows(values.last().unwrap()).remove(0);
            expected = plus(&expected, &vec![row; nodes]);
        }
        let mut by_values: Vec<Rows> = parts.iter().map(|part| times(&transposed(&rows(&g)), part)).collect();
        if bias {
            by_values.push(times(&vec![vec![1.0; nodes]], &rows(&g)));
        }
        for is_sparse in [false, true] {
            let features = if is_sparse { sparse(&u) } else { Features::Dense(u.clone()) };
            let what = format!("{map:?}, sparse {is_sparse}, {nodes} x {p} x {m}");
            let shape = shape(map, Mapped::Columns(p), bias, m);
            prop_assert_eq!(shape.slots().len(), values.len());
            let mut input = Input::new(&operators, features, shape, false);
            let (b, gradients) = passes(&mut input, &values, &g);
            naive::assert_close(b.view(), &expected, &what);
            for (found, expected) in gradients.iter().zip(&by_values) {
                naive::assert_close(found.view(), expected, &what);
            }
            let other = with_threads(3, || passes(&mut input, &values, &g));
            prop_assert_eq!(rows(&other.0), rows(&b), "{}", what);
            for (other, found) in other.1.iter().zip(&gradients) {
                prop_assert_eq!(rows(other), rows(found), "{}", what);
            }
        }
    }

    #[test]
    fn learned_features_are_gathered_or_taken_as_they_are(
        seed in any::<u64>(), nodes in 1usize..80, m in 1usize..40, own: bool, bias: bool,
    ) {
        let random = &mut Random(seed);
        let graph = Both::random(random, nodes);
        let (operators, a_t) = (graph.operators(), graph.dense());
        let map = if own { InputMap::Own } else { InputMap::Gathered };
        let shape = shape(map, Mapped::Learned(nodes), bias, m);
        let mut input = Input::new(&operators, Features::Learned, shape, false);
        let mut values = vec![random.matrix(nodes, m)];
        if bias {
            values.push(random.matrix(1, m));
        }
        let g = random.matrix(nodes, m);
        let (b, gradients) = passes(&mut input, &values, &g);
        let mut expected = if own { rows(&values[0]) } else { times(&a_t, &rows(&values[0])) };
        if bias {
            expected = plus(&expected, &vec![rows(&values[1]).remove(0); nodes]);
            let sums = times(&vec![vec![1.0; nodes]], &rows(&g));
            naive::assert_close(gradients[1].view(), &sums, "bias");
        }
        naive::assert_close(b.view(), &expected, "B");
        let by_e = if own { rows(&g) } else { times(&transposed(&a_t), &rows(&g)) };
        naive::assert_close(gradients[0].view(), &by_e, "E");
    }
}

#[test]
fn slots_are_the_parameters_of_the_file() {
    let slots = |shape: InputShape| {
        let initial = shape.initial(9, 1.0);
        let slots = shape.slots();
        for (slot, value) in slots.iter().zip(&initial) {
            assert_eq!((value.rows(), value.cols()), slot.shape);
            let bound = if slot.is_bias { 0.0 } else { 3f32.sqrt().recip() };
            assert!((0..value.rows()).all(|i| value.row(i).iter().all(|x| x.abs() <= bound)));
        }
        slots.into_iter().map(|slot| (slot.name, slot.shape)).collect::<Vec<_>>()
    };
    let named = |name: &str, shape: (usize, usize)| (name.to_string(), shape);
    let columns = Mapped::Columns(2);
    assert_eq!(slots(shape(InputMap::Own, columns, false, 3)), [named("layer0.Omega", (3, 2))]);
    let both = [
        named("layer0.Omega", (3, 2)),
        named("layer0.Omega2", (3, 2)),
        named("layer0.bias", (1, 3)),
    ];
    assert_eq!(slots(shape(InputMap::Both, columns, true, 3)), both);
    let learned = [named("layer0.E", (5, 3)), named("layer0.bias", (1, 3))];
    assert_eq!(slots(shape(InputMap::Gathered, Mapped::Learned(5), true, 3)), learned);
    let relations = vec!["by author".to_string(), "by subject".to_string()];
    let several = InputShape { layer: 1, relations, ..shape(InputMap::Both, columns, false, 3) };
    let names = ["layer1.Omega.by author", "layer1.Omega.by subject", "layer1.Omega2"];
    assert_eq!(slots(several.clone()), names.map(|name| named(name, (3, 2))));
    let own = InputShape { map: InputMap::Own, ..several };
    assert_eq!(slots(own), [named("layer1.Omega", (3, 2))]);
}
