//! PageRank as an equilibrium of width 1: x = d A^T x + (1 - d) / n, with A's rows summing to one.
//! Every rank comes with a certified bound of its error. `-- DIR` ranks the nodes of a dataset.
//!
//!     cargo run --release --example pagerank

use ignn::kernels::sweep::{Direction, Sweep, SweepScratch, Term, blocks};
use ignn::kernels::{Activation, AdjacencyRef, Lockstep, PackedWeights};
use ignn::prelude::*;
use ignn::solver::{Certificate, Workspace, fixed_point};
use rayon::prelude::*;

const DAMPING: f32 = 0.85;

/// The rank of every page. Row `i` of `links` has the pages that link to page `i`; each page shares
/// its rank equally among its links.
fn pagerank(links: AdjacencyRef<'_>) -> ignn::Result<(Vec<f64>, SolveInfo)> {
    let pages = links.rows();
    let damping = PackedWeights::forward(Matrix::from_fn(1, 1, |_, _| DAMPING).view());
    let jump = Matrix::from_fn(pages, 1, |_, _| (1.0 - DAMPING) / pages as f32);
    let terms = [Term { adjacency: links, weights: &damping }];
    let (blocks, scratch) = (blocks(&terms), SweepScratch::new(&terms));
    let sweep =
        Sweep { blocks: &blocks, terms: &terms, input: jump.view().into(), scratch: &scratch };
    // No page gives away more than it has: the spectral radius is at most 1, but for rounding.
    let certificate = Certificate::of(&terms, 1.0, Some(1.0 + 1e-6));
    let params = SolveParams { tolerance: 1e-6, ..SolveParams::default() };
    let mut rank = Matrix::zeros(pages, 1);
    let mut workspace = Workspace::new(pages, 1, !certificate.holds());
    let (direction, x) = (Direction::Forward(Activation::Identity), &mut rank);
    let certificate = Some(&certificate);
    let info = fixed_point::solve(&sweep, direction, certificate, &params, x, &mut workspace)?;
    Ok(((0..pages).map(|page| f64::from(rank.row(page)[0])).collect(), info))
}

/// One step of the power iteration from `rank`, in f64. What it changes is small where `rank` is a
/// solution: |x - x*| <= |step(x) - x| / (1 - d) in the sum over all pages.
fn power_step(links: AdjacencyRef<'_>, rank: &[f64]) -> Vec<f64> {
    let jump = f64::from((1.0 - DAMPING) / links.rows() as f32);
    let sum = |page| links.entries(page).map(|(source, share)| f64::from(share) * rank[source]);
    let pages = (0..links.rows()).into_par_iter().with_min_len(1024);
    pages.map(|page| f64::from(DAMPING) * sum(page).sum::<f64>() + jump).collect()
}

/// The share of its rank that a page passes on by each of its links.
fn shares(links: AdjacencyRef<'_>) -> Vec<f32> {
    let mut count = vec![0u32; links.columns()];
    links.neighbours().iter().for_each(|&source| count[source as usize] += 1);
    count.iter().map(|&links| 1.0 / links.max(1) as f32).collect()
}

/// The sources of the links to each page: i links to i + 1, 2 i + 1 and one of the first pages.
fn small_web(pages: u32) -> (Vec<u64>, Vec<u32>) {
    let to = |i: u32| [(i + 1) % pages, (2 * i + 1) % pages, i % 7];
    let mut links: Vec<_> = (0..pages).flat_map(|i| to(i).map(|j| (j, i))).collect();
    links.sort_unstable();
    links.dedup();
    let offset = |page| links.partition_point(|link| link.0 < page) as u64;
    ((0..=pages).map(offset).collect(), links.iter().map(|link| link.1).collect())
}

fn main() -> ignn::Result<()> {
    let (web, graph);
    let (offsets, sources): (&[u64], &[u32]) = match std::env::args_os().nth(1) {
        Some(path) => {
            graph = Graph::open(path)?;
            let links = &graph.relations()?[0].incoming;
            (links.offsets(), links.neighbours())
        }
        None => {
            web = small_web(1000);
            (&web.0, &web.1)
        }
    };
    let links = AdjacencyRef::new(offsets.len() - 1, offsets, sources)?;
    let share = shares(links);
    // A copy of the links makes sweeps over so narrow a state faster.
    let copy = Lockstep::of(&links);
    let links = links.with_gather_scale(&share).with_lockstep(&copy);
    let (rank, info) = pagerank(links)?;
    println!("{} sweeps, error at most {:?}", info.sweeps, info.certified_error);
    let change: f64 = power_step(links, &rank).iter().zip(&rank).map(|(a, b)| (a - b).abs()).sum();
    println!("a step of the power iteration moves {change:.1e} of all rank");
    let mut order: Vec<(usize, f64)> = rank.into_iter().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    order.iter().take(10).for_each(|(page, rank)| println!("page {page}: {rank:.3e}"));
    Ok(())
}

#[test]
fn ranks_are_those_of_the_power_iteration() {
    for pages in [1, 2, 50, 1000] {
        let (offsets, sources) = small_web(pages);
        let links = AdjacencyRef::new(pages as usize, &offsets, &sources).unwrap();
        let share = shares(links);
        let links = links.with_gather_scale(&share);
        let (rank, info) = pagerank(links).unwrap();
        let start = vec![1.0 / f64::from(pages); pages as usize];
        let expected = (0..250).fold(start, |rank, _| power_step(links, &rank));
        let allowed = info.certified_error.expect("a contraction").largest + 1e-15;
        for (page, (found, expected)) in rank.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() <= allowed, "page {page}: {found}, not {expected}");
        }
    }
}
