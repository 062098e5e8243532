//! An equilibrium without a model: X = relu(A^T X W^T + B) for a W and a B of your own, with a
//! certificate that it is the only one and of how far off the computed one is at most.
//!
//!     cargo run --release --example equilibrium

use ignn::kernels::Activation;
use ignn::nn::{Equilibrium, Operators};
use ignn::prelude::*;

/// Solves for X; W must be small enough for one solution: here that is checked by the solve.
fn solve(graph: &Graph, w: &Matrix, b: &Matrix) -> ignn::Result<(Matrix, SolveInfo)> {
    let operators = Operators::of(graph.relations()?);
    let mut layer = Equilibrium::new(&operators, w.rows(), Activation::Relu);
    layer.input = b.clone();
    let params = SolveParams { tolerance: 1e-6, ..SolveParams::default() };
    let info = layer.solve(&[w.view()], &params)?;
    Ok((layer.state, info))
}

/// The largest entry of relu(A^T X W^T + B) - X, by plain loops in f64.
fn residual(graph: &Graph, w: &Matrix, b: &Matrix, x: &Matrix) -> ignn::Result<f64> {
    let operators = Operators::of(graph.relations()?);
    let (a_t, m) = (operators.incoming()[0], w.rows());
    let mut largest = 0.0f64;
    for i in 0..x.rows() {
        let mut gathered = vec![0.0; m];
        for (j, value) in a_t.entries(i) {
            gathered.iter_mut().zip(x.row(j)).for_each(|(sum, x)| *sum += f64::from(value * x));
        }
        for k in 0..m {
            let product = w.row(k).iter().zip(&gathered).map(|(w, x)| f64::from(*w) * x);
            let z = product.sum::<f64>() + f64::from(b.row(i)[k]);
            largest = largest.max((z.max(0.0) - f64::from(x.row(i)[k])).abs());
        }
    }
    Ok(largest)
}

/// A ring of nodes, one of which has an input; W passes the state on with `strength`.
fn ring(nodes: u32, strength: f32) -> ignn::Result<(Graph, Matrix, Matrix)> {
    let edges = (0..nodes).map(|node| (node, (node + 1) % nodes));
    let graph = GraphBuilder::new(nodes as usize).edges(edges).build()?;
    let w = Matrix::from_fn(2, 2, |k, l| if k == l { strength } else { 0.1 * strength });
    let b =
        Matrix::from_fn(nodes as usize, 2, |node, k| if node == 0 { 1.0 + k as f32 } else { 0.0 });
    Ok((graph, w, b))
}

fn main() -> ignn::Result<()> {
    let (graph, w, b) = ring(100, 0.8)?;
    let (x, info) = solve(&graph, &w, &b)?;
    println!("{} sweeps, converged: {}", info.sweeps, info.converged);
    println!(
        "contraction at most {:?}, error at most {:?}",
        info.contraction, info.certified_error
    );
    println!("residual by plain loops: {:.1e}", residual(&graph, &w, &b, &x)?);
    println!("the input reaches node 10 as {:?}", x.row(10));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equation_holds_and_the_solution_is_certified() {
        let (graph, w, b) = ring(60, 0.8).unwrap();
        let (x, info) = solve(&graph, &w, &b).unwrap();
        assert!(info.converged && info.contraction.unwrap() < 1.0);
        assert!(residual(&graph, &w, &b, &x).unwrap() < 1e-5);
        // The input reaches distant nodes, less and less of it.
        assert!(0.0 < x.row(10)[0] && x.row(10)[0] < x.row(5)[0] && x.row(5)[0] < x.row(0)[0]);
    }

    #[test]
    fn a_large_w_is_not_certified() {
        let (graph, w, b) = ring(60, 1.2).unwrap();
        let (_, info) = solve(&graph, &w, &b).unwrap();
        assert!(!info.converged && info.certified_error.is_none());
    }
}
