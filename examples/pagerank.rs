//! PageRank as an equilibrium of width 1: x = A^T x d + (1 - d) / n, A with rows that sum to one.
//! The same numbers as a plain power iteration, with a certificate for every one of them.
//!
//!     cargo run --release --example pagerank

use ignn::dense::Matrix;
use ignn::kernels::sweep::{Sweep, SweepScratch, Term, blocks};
use ignn::kernels::{Activation, AdjacencyRef, PackedWeights};
use ignn::solver::{Certificate, SolveParams, Workspace, fixed_point};

const DAMPING: f32 = 0.85;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Who links to page i, and one over the links that leave page j.
    let offsets = [0, 2, 3, 6, 7];
    let sources = [1, 2, 0, 0, 1, 3, 2];
    let share = [0.5, 0.5, 0.5, 1.0];
    let pages = share.len();
    let adjacency = AdjacencyRef::new(pages, &offsets, &sources)?.with_gather_scale(&share);

    let damping = PackedWeights::forward(Matrix::from_fn(1, 1, |_, _| DAMPING).view());
    let jump = Matrix::from_fn(pages, 1, |_, _| (1.0 - DAMPING) / pages as f32);
    let terms = [Term { adjacency, weights: &damping }];
    let (blocks, scratch) = (blocks(&terms), SweepScratch::new(&terms));
    let sweep = Sweep { blocks: &blocks, terms: &terms, input: jump.view(), scratch: &scratch };
    let certificate = Certificate::of(&terms, 1.0, None);
    let params = SolveParams { tolerance: 1e-6, ..SolveParams::default() };
    let (mut rank, mut workspace) = (Matrix::zeros(pages, 1), Workspace::new(pages, 1, !certificate.holds()));
    let info = fixed_point::forward(
        &sweep,
        Activation::Identity,
        Some(&certificate),
        &params,
        &mut rank,
        &mut workspace,
    )?;
    println!("{} sweeps, contraction {:?}, error {:?}", info.sweeps, info.contraction, info.certified_error);

    let mut plain = vec![1.0 / pages as f64; pages];
    for _ in 0..200 {
        let link = |&j: &u32| plain[j as usize] * f64::from(share[j as usize]);
        let sum =
            |i: usize| sources[offsets[i] as usize..offsets[i + 1] as usize].iter().map(link).sum::<f64>();
        let jump = (1.0 - f64::from(DAMPING)) / pages as f64;
        plain = (0..pages).map(|i| f64::from(DAMPING) * sum(i) + jump).collect();
    }
    for (page, plain) in plain.iter().enumerate() {
        let found = f64::from(rank.row(page)[0]);
        println!("page {page}: {found:.6}, by power iteration {plain:.6}");
        assert!((found - plain).abs() < 1e-5, "page {page}");
    }
    Ok(())
}
