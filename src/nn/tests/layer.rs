//! Operators and the equilibrium layer: bounds, kept vectors, starts, solves without a certificate.

use std::sync::Arc;

use crate::dense::Matrix;
use crate::kernels::naive::{Operator, Random, Rows};
use crate::kernels::{Activation, Added, AdjacencyRef, RowPlaces, Selection};
use crate::nn::{Backward, Equilibrium, Operators, Vectors};
use crate::solver::{SolveInfo, SolveParams};

/// A graph in both directions.
pub struct Both {
    incoming: Operator,
    outgoing: Operator,
}

impl Both {
    /// Rows of at most 60 entries, with values.
    pub fn random(random: &mut Random, nodes: usize) -> Self {
        Self::of(Operator::random(random, nodes, nodes, 1))
    }

    /// From edges (source, target, value).
    fn edges(nodes: usize, edges: &[(usize, usize, f32)]) -> Self {
        let mut incoming = Operator {
            columns: nodes,
            offsets: vec![0],
            neighbours: Vec::new(),
            values: Some(Vec::new()),
            gather_scale: None,
            row_scale: None,
        };
        for row in 0..nodes {
            for edge in edges.iter().filter(|edge| edge.1 == row) {
                incoming.neighbours.push(edge.0 as u32);
                incoming.values.as_mut().unwrap().push(edge.2);
            }
            incoming.offsets.push(incoming.neighbours.len() as u64);
        }
        Self::of(incoming)
    }

    fn of(incoming: Operator) -> Self {
        let nodes = incoming.columns;
        let mut entries = Vec::new();
        for row in 0..nodes {
            entries
                .extend(incoming.view().entries(row).map(|(column, value)| (column, row, value)));
        }
        entries.sort_by_key(|entry| (entry.0, entry.1));
        let offset = |row| entries.partition_point(|entry| entry.0 < row) as u64;
        let outgoing = Operator {
            columns: nodes,
            offsets: (0..=nodes).map(offset).collect(),
            neighbours: entries.iter().map(|entry| entry.1 as u32).collect(),
            values: Some(entries.iter().map(|entry| entry.2).collect()),
            gather_scale: None,
            row_scale: None,
        };
        Self { incoming, outgoing }
    }

    pub fn operators(&self) -> Operators {
        Operators::new(vec![self.incoming.view()], vec![self.outgoing.view()])
    }

    /// A^T
    pub fn dense(&self) -> Rows {
        let view: AdjacencyRef<'_> = self.incoming.view();
        let mut rows = vec![vec![0.0; view.rows()]; view.rows()];
        for (i, row) in rows.iter_mut().enumerate() {
            view.entries(i).for_each(|(column, value)| row[column] += f64::from(value));
        }
        rows
    }
}

#[test]
fn radii_are_those_of_the_graph() {
    // A cycle whose weights multiply to 8, and a tail.
    let edges = [(0, 1, 2.0), (1, 2, 2.0), (2, 0, 2.0), (2, 3, 100.0)];
    let cycle = Both::edges(4, &edges);
    let operators = cycle.operators();
    assert_eq!((operators.nodes(), operators.nonzeros()), (4, 4));
    let rho = operators.radii()[0];
    assert!((2.0..2.0 + 1e-5).contains(&rho), "{rho}");
    assert_eq!(operators.spectral().unwrap().rho, rho);
    let radius = operators.weight_radius(0, 0.9);
    assert!(radius <= 0.45 && radius > 0.4499, "{radius}");
    assert_eq!(operators.weight_radius(0, 0.0), 0.0);

    // Without a cycle nothing comes back: any weight will do.
    let path = Both::edges(3, &[(0, 1, 5.0), (1, 2, 5.0)]);
    assert_eq!(
        (path.operators().radii()[0], path.operators().weight_radius(0, 0.9)),
        (0.0, f64::INFINITY)
    );

    // Several relations: what each node passes on at most.
    let path = Both::edges(4, &[(0, 1, 0.5), (0, 2, 0.25), (3, 1, 0.5)]);
    let (incoming, outgoing) = (
        vec![cycle.incoming.view(), path.incoming.view()],
        vec![cycle.outgoing.view(), path.outgoing.view()],
    );
    let several = Operators::new(incoming, outgoing);
    assert!(several.spectral().is_none());
    let norms: Vec<f64> = (0..2)
        .map(|r| {
            let a_t = [&cycle, &path][r].dense();
            // ||A||_1 of mathematics.md: the largest sum over what a node gathers.
            a_t.iter().map(|row| row.iter().sum::<f64>()).fold(0.0, f64::max)
        })
        .collect();
    for (found, expected) in several.radii().iter().zip(&norms) {
        assert!(found >= expected && *found <= expected * (1.0 + 1e-6), "{found} {expected}");
    }
    assert_eq!(several.nonzeros(), 7);
}

#[test]
#[should_panic(expected = "both directions of the same relations")]
fn operators_need_both_directions() {
    let path = Both::edges(3, &[(0, 1, 5.0), (1, 2, 5.0)]);
    let other = Both::edges(3, &[(0, 1, 5.0)]);
    Operators::new(vec![path.incoming.view()], vec![other.outgoing.view()]);
}

/// Two graphs in one block-diagonal dataset, and where each begins.
fn two_graphs() -> ([Both; 2], Both, [u64; 3]) {
    let graphs = [1, 2].map(|seed| Both::random(&mut Random(seed), 60));
    let mut edges = Vec::new();
    for (at, graph) in graphs.iter().enumerate() {
        for row in 0..60 {
            let entries = graph.incoming.view().entries(row);
            edges.extend(entries.map(|(column, value)| (column + 60 * at, row + 60 * at, value)));
        }
    }
    (graphs, Both::edges(120, &edges), [0, 60, 120])
}

#[test]
fn a_layer_over_a_selection_is_that_of_the_graph_alone() {
    let (graphs, dataset, first_node) = two_graphs();
    let operators = dataset.operators();
    let radii = operators.graph_radii(&first_node).unwrap();
    let largest = radii[0].iter().copied().fold(0.0, f64::max);
    assert!((largest / operators.radii()[0] - 1.0).abs() < 1e-5);
    for (at, graph) in graphs.iter().enumerate() {
        let alone = graph.operators();
        assert_eq!(radii[0][at], alone.radii()[0]);
        let selection = Selection::of_graphs(&first_node, &[at]).unwrap();
        let selected = operators.select(&Arc::new(selection), vec![radii[0][at]]).unwrap();
        assert_eq!((selected.nodes(), selected.nonzeros()), (60, alone.nonzeros()));
        assert_eq!(selected.spectral_radius(), Some(alone.radii()[0]));
        let w = weight(&alone, 6, 0.9, 3);
        let expected = solves(&mut layer(&alone, 6, Activation::Tanh), &w);
        assert_eq!(solves(&mut layer(&selected, 6, Activation::Tanh), &w), expected);
    }
}

#[test]
fn relations_have_one_norm_per_graph() {
    let (graphs, dataset, first_node) = two_graphs();
    let double = |both: &Both| -> Vec<f64> {
        let (incoming, outgoing) = (both.incoming.view(), both.outgoing.view());
        Operators::new(vec![incoming, outgoing], vec![outgoing, incoming]).radii().to_vec()
    };
    let (incoming, outgoing) = (dataset.incoming.view(), dataset.outgoing.view());
    let several = Operators::new(vec![incoming, outgoing], vec![outgoing, incoming]);
    let found = several.graph_radii(&first_node).unwrap();
    let expected: Vec<_> = graphs.iter().map(double).collect();
    for relation in 0..2 {
        assert_eq!(found[relation], [expected[0][relation], expected[1][relation]]);
    }
    let all = Selection::of_graphs(&first_node, &[1, 0]).unwrap();
    let radii = || several.radii().to_vec();
    let all = several.select(&Arc::new(all), radii()).unwrap();
    assert_eq!(all.spectral_radius(), None);
    let cut = Selection::new(std::iter::once(0..59)).unwrap();
    let refused = several.select(&Arc::new(cut), radii()).unwrap_err().to_string();
    assert!(
        refused.starts_with("adjacency: neighbour in another graph (found 59, expected 0 to 58)"),
        "{refused}"
    );
}

/// A layer whose input and right side are drawn by a seed.
fn layer(operators: &Operators, width: usize, activation: Activation) -> Equilibrium {
    let mut layer = Equilibrium::new(operators, width, activation).with_adjoint();
    let random = &mut Random(5);
    layer.input = random.matrix(operators.nodes(), width);
    layer.right = random.matrix(operators.nodes(), width);
    layer
}

/// W within `kappa / rho`.
fn weight(operators: &Operators, width: usize, kappa: f64, seed: u64) -> Matrix {
    let size = (operators.weight_radius(0, kappa) / width as f64) as f32;
    let random = &mut Random(seed);
    Matrix::from_fn(width, width, |_, _| size * random.float())
}

fn timeless(info: SolveInfo) -> SolveInfo {
    info.without_times()
}

fn bits(matrix: &Matrix) -> Vec<Vec<u32>> {
    (0..matrix.rows()).map(|i| matrix.row(i).iter().map(|x| x.to_bits()).collect()).collect()
}

/// Both solves, and all that they leave.
fn solves(layer: &mut Equilibrium, w: &Matrix) -> (SolveInfo, SolveInfo, [Vec<Vec<u32>>; 3]) {
    let params = SolveParams::default();
    let forward = layer.solve(&[w.view()], &params).unwrap();
    let adjoint = layer.solve_adjoint(&[w.view()], Backward::Exact, &params).unwrap();
    let results = [bits(&layer.state), bits(&layer.adjoint), bits(&layer.weight_gradient(0))];
    (timeless(forward), timeless(adjoint), results)
}

#[test]
fn what_is_kept_makes_another_layer_go_on_to_the_bit() {
    for (seed, activation) in
        [(1, Activation::Relu), (2, Activation::Tanh), (3, Activation::Identity)]
    {
        let graph = Both::random(&mut Random(seed), 70);
        let operators = graph.operators();
        let (first, second) = (weight(&operators, 5, 0.95, 7), weight(&operators, 5, 0.95, 8));
        let mut one = layer(&operators, 5, activation);
        assert_eq!(one.kept(), [None, None]);
        solves(&mut one, &first);
        let kept = one.kept().map(|kept| kept.cloned());
        assert!(kept.iter().all(Option::is_some));
        let (state, adjoint) = (one.state.clone(), one.adjoint.clone());
        let expected = solves(&mut one, &second);

        let mut other = layer(&operators, 5, activation);
        (other.state, other.adjoint) = (state, adjoint);
        other.keep(kept);
        assert_eq!(solves(&mut other, &second), expected);
        // From zero it is another way to the same place.
        other.reset();
        assert!(other.state.row(0).iter().chain(other.adjoint.row(0)).all(|&x| x == 0.0));
        let from_zero = solves(&mut other, &second);
        assert!(from_zero.0.sweeps >= expected.0.sweeps);
    }
}

#[test]
fn an_adjoint_of_some_rows_is_that_of_a_matrix_with_zeros() {
    for (width, activation) in [(5, Activation::Relu), (20, Activation::Tanh)] {
        let operators = Both::random(&mut Random(2), 70).operators();
        let w = weight(&operators, width, 0.95, 7);
        let listed: Vec<u32> = (0..70).filter(|row| row % 9 == 4).collect();
        let mut whole = layer(&operators, width, activation);
        let mut some = layer(&operators, width, activation);
        let rows =
            Matrix::from_fn(listed.len(), width, |at, k| whole.right.row(listed[at] as usize)[k]);
        for row in (0..70).filter(|row| !listed.contains(row)) {
            whole.right.row_mut(row as usize).fill(0.0);
        }
        let expected = solves(&mut whole, &w);
        let places = RowPlaces::new(70, listed);
        let (params, right) =
            (SolveParams::default(), Added::Some { places: &places, rows: rows.view() });
        some.right = Matrix::zeros(0, width);
        some.solve(&[w.view()], &params).unwrap();
        let found = some.solve_adjoint_of(right, &[w.view()], Backward::Exact, &params).unwrap();
        assert!(found.certified_error.is_some());
        assert_eq!((timeless(found), bits(&some.adjoint)), (expected.1, expected.2[1].clone()));
    }
}

#[test]
fn vectors_that_do_not_fit_any_more_are_found_anew() {
    let graph = Both::random(&mut Random(4), 40);
    let operators = graph.operators();
    let w = weight(&operators, 4, 0.9, 7);
    let mut layer = layer(&operators, 4, Activation::Tanh);
    // A weight of one node a million times that of others certifies nothing.
    let u: Vec<f32> = (0..40).map(|node| if node == 0 { 1e6 } else { 1.0 }).collect();
    let useless = Vectors { u: Some(u), v: None, q: 0.0 };
    layer.keep([Some(useless.clone()), Some(useless.clone())]);
    let (forward, adjoint, _) = solves(&mut layer, &w);
    assert!(forward.contraction.is_some() && adjoint.contraction.is_some());
    assert!(layer.kept().iter().all(|kept| *kept != Some(&useless)));
}

#[test]
fn a_search_is_not_repeated_while_its_vectors_prove_about_as_much() {
    let graph = Both::random(&mut Random(4), 40);
    let operators = graph.operators();
    let mut layer = layer(&operators, 4, Activation::Tanh);
    let size = operators.weight_radius(0, 0.995) as f32 / 4.0;
    let w = Matrix::from_fn(4, 4, |_, _| size);
    let (first, _, _) = solves(&mut layer, &w);
    let found = first.contraction.expect("a certificate");
    assert!(found > 0.97, "{found} is good enough without a comparison");
    let scaled = |factor: f32| Matrix::from_fn(4, 4, |i, k| factor * w.row(i)[k]);
    let (second, _, _) = solves(&mut layer, &scaled(0.9995));
    assert!(second.contraction.is_some_and(|q| q < found), "{:?} {found}", second.contraction);
    assert!(4 * second.certificate.passes < first.certificate.passes, "{first:?} {second:?}");
    // With weights for which they prove much less, there is a search again.
    let before = layer.kept()[0].cloned();
    let (third, _, _) = solves(&mut layer, &scaled(1.003));
    assert!(third.certificate.passes > second.certificate.passes, "{second:?} {third:?}");
    assert_ne!(layer.kept()[0].cloned(), before);
}

#[test]
fn without_a_certificate_solves_keep_their_best_and_search_again_when_it_is_easier() {
    let cycle = Both::edges(2, &[(0, 1, 1.0), (1, 0, 1.0)]);
    let operators = cycle.operators();
    // tanh contracts nothing here by its bound, yet has an equilibrium that sweeps find.
    let w = |size: f32| Matrix::from_fn(1, 1, |_, _| size);
    let mut layer = layer(&operators, 1, Activation::Tanh);
    let (forward, adjoint, _) = solves(&mut layer, &w(1.5));
    assert!(forward.contraction.is_none() && forward.certified_error.is_none());
    assert!(forward.converged && adjoint.converged, "{forward:?} {adjoint:?}");
    let factors = |layer: &Equilibrium| layer.kept().map(|kept| kept.unwrap().q);
    assert!(factors(&layer).iter().all(|&q| (q - 1.5).abs() < 1e-6), "{:?}", layer.kept());
    let searched = forward.certificate.passes;
    assert!(searched > 1, "{forward:?}");
    // It is not searched again while nothing has become much easier, whatever is easier or harder.
    for size in [1.45, 1.7, 1.41, 1.5] {
        let (forward, adjoint, _) = solves(&mut layer, &w(size));
        assert_eq!((forward.certificate.passes, adjoint.certificate.passes), (1, 1), "{size}");
        assert!(forward.contraction.is_none());
        assert!(factors(&layer).iter().all(|&q| (q - 1.5).abs() < 1e-6));
    }
    let (forward, adjoint, _) = solves(&mut layer, &w(1.35));
    assert!(forward.certificate.passes >= searched && adjoint.certificate.passes >= 2);
    assert!(factors(&layer).iter().all(|&q| (q - 1.35).abs() < 1e-6));
    // The vectors of a search that had failed may hold for other weights.
    let (forward, adjoint, _) = solves(&mut layer, &w(0.8));
    assert!(forward.contraction.is_some() && adjoint.contraction.is_some());
    assert!(factors(&layer).iter().all(|&q| q < 0.81), "{:?}", layer.kept());
}

#[test]
fn bytes_are_what_the_matrices_take() {
    let graph = Both::random(&mut Random(4), 40);
    let operators = graph.operators();
    let layer = layer(&operators, 9, Activation::Relu);
    let state = layer.state.view().padded().len() * 4;
    let estimate = Equilibrium::bytes(40, 9, 1, true, 0) as usize;
    // X, the buffer of the solves, signs and vectors; B, R and G are the caller's.
    assert!(estimate > 2 * state && estimate < 3 * state, "{estimate} {state}");
    assert!(Equilibrium::bytes(40, 9, 1, false, 0) < Equilibrium::bytes(40, 9, 1, true, 0));
    // A narrow state takes its own width, and one copy per relation in its sweeps.
    let narrow = |relations| Equilibrium::bytes(4000, 1, relations, true, 0);
    assert_eq!(narrow(3) - narrow(1), 2 * 4000 * 4);
    assert!(4 * narrow(1) < Equilibrium::bytes(4000, 16, 1, true, 0));
}
