//! PageRank as an equilibrium of width 1: x = d A^T x + (1 - d) / n, A with rows that sum to one.
//! The numbers of a plain power iteration, with a certificate for every one of them.
//!
//!     cargo run --release --example pagerank             a small graph
//!     cargo run --release --example pagerank -- DIR      the first relation of a dataset, its edges taken as links

use std::error::Error;

use ignn::dense::Matrix;
use ignn::graph::Graph;
use ignn::kernels::sweep::{Direction, Sweep, SweepScratch, Term, blocks};
use ignn::kernels::{Activation, AdjacencyRef, PackedWeights};
use ignn::solver::{Certificate, SolveError, SolveInfo, SolveParams, Workspace, fixed_point};

const DAMPING: f32 = 0.85;

/// The rank of every page; `links` has a row of sources for each page, and each page shares its
/// rank among its links.
fn pagerank(links: AdjacencyRef<'_>) -> Result<(Matrix, SolveInfo), SolveError> {
    let pages = links.rows();
    let damping = PackedWeights::forward(Matrix::from_fn(1, 1, |_, _| DAMPING).view());
    let jump = Matrix::from_fn(pages, 1, |_, _| (1.0 - DAMPING) / pages as f32);
    let terms = [Term { adjacency: links, weights: &damping }];
    let (blocks, scratch) = (blocks(&terms), SweepScratch::new(&terms));
    let sweep = Sweep { blocks: &blocks, terms: &terms, input: jump.view(), scratch: &scratch };
    // No page gives away more than it has: the spectral radius is 1 at most, but for the rounding
    // of the shares.
    let certificate = Certificate::of(&terms, 1.0, Some(1.0 + 1e-6));
    let params = SolveParams { tolerance: 1e-6, ..SolveParams::default() };
    let mut rank = Matrix::zeros(pages, 1);
    let mut workspace = Workspace::new(pages, 1, !certificate.holds());
    let (phi, certificate) = (Activation::Identity, Some(&certificate));
    let info = fixed_point::solve(
        &sweep,
        Direction::Forward(phi),
        certificate,
        &params,
        &mut rank,
        &mut workspace,
    )?;
    Ok((rank, info))
}

/// The same by the textbook, in f64.
fn power_iteration(links: AdjacencyRef<'_>) -> Vec<f64> {
    let (pages, damping) = (links.rows(), f64::from(DAMPING));
    let jump = f64::from((1.0 - DAMPING) / pages as f32);
    let share = |page: usize| f64::from(links.gather_scale().map_or(1.0, |share| share[page]));
    let mut rank = vec![1.0 / pages as f64; pages];
    for _ in 0..250 {
        let sources =
            |page| links.neighbours()[links.range(page)].iter().map(|&source| source as usize);
        let sum = |page| sources(page).map(|source| share(source) * rank[source]).sum::<f64>();
        rank = (0..pages).map(|page| damping * sum(page) + jump).collect();
    }
    rank
}

/// Ranks the pages, holds them against the power iteration and prints the first ten.
fn compare(offsets: &[u64], sources: &[u32]) -> Result<(), Box<dyn Error>> {
    let mut links_out = vec![0u32; offsets.len() - 1];
    sources.iter().for_each(|&source| links_out[source as usize] += 1);
    let share: Vec<f32> = links_out.iter().map(|&links| 1.0 / links.max(1) as f32).collect();
    let links = AdjacencyRef::new(share.len(), offsets, sources)?.with_gather_scale(&share);
    let (rank, info) = pagerank(links)?;
    println!(
        "{} sweeps, contraction {:?}, error {:?}",
        info.sweeps, info.contraction, info.certified_error
    );

    let expected = power_iteration(links);
    let largest = expected.iter().copied().fold(0.0, f64::max);
    let allowed = info.certified_error.map_or(1e-5 * largest, |bound| bound.largest + 1e-15);
    for (page, expected) in expected.iter().enumerate() {
        let found = f64::from(rank.row(page)[0]);
        assert!(
            (found - expected).abs() <= allowed,
            "page {page}: {found}, by power iteration {expected}"
        );
    }
    let mut order: Vec<usize> = (0..expected.len()).collect();
    order.sort_by(|&i, &j| rank.row(j)[0].total_cmp(&rank.row(i)[0]));
    for page in order.into_iter().take(10) {
        println!(
            "page {page}: {:.3e}, by power iteration {:.3e}",
            rank.row(page)[0],
            expected[page]
        );
    }
    Ok(())
}

/// A small web: page i links to i + 1, 2 i + 1 and to one of the first pages.
fn small_web(pages: u32) -> (Vec<u64>, Vec<u32>) {
    let mut links: Vec<_> = (0..pages)
        .flat_map(|i| [(i + 1) % pages, (2 * i + 1) % pages, i % 7].map(|j| (j, i)))
        .collect();
    links.sort_unstable();
    links.dedup();
    let offset = |page| links.partition_point(|link| link.0 < page) as u64;
    ((0..=pages).map(offset).collect(), links.iter().map(|link| link.1).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        let (offsets, sources) = small_web(1000);
        return compare(&offsets, &sources);
    };
    let dataset = Graph::open(std::path::Path::new(&path))?;
    let links = &dataset.relations()?.first().ok_or("no relation")?.incoming;
    // Checked here because the links are counted before they become an operator.
    AdjacencyRef::new(links.rows(), links.offsets(), links.neighbours())?;
    compare(links.offsets(), links.neighbours())
}

#[test]
fn it_agrees_with_the_power_iteration() {
    for pages in [1, 2, 50, 1000] {
        let (offsets, sources) = small_web(pages);
        compare(&offsets, &sources).unwrap();
    }
}
