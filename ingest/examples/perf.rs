#![allow(missing_docs)]
use ignn_ingest::{*, builder::*, context::*, edges::{spool::*, map::NodeMap}, source::edges::EdgeFiles, command::edges::*};
use std::{path::PathBuf, io::Write, time::Instant};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "gen" {
        let (scale, m): (u32, u64) = (args[3].parse().unwrap(), args[4].parse().unwrap());
        let mut out = std::io::BufWriter::with_capacity(1<<20, std::fs::File::create(&args[2]).unwrap());
        let s = random::Stream::new(1, "rmat");
        for e in 0..m {
            let mut st = s.fork(e);
            let (mut u, mut v) = (0u64, 0u64);
            for _ in 0..scale { let r = st.unit(); let (a,b) = if r<0.57 {(0,0)} else if r<0.76 {(0,1)} else if r<0.95 {(1,0)} else {(1,1)}; u=u*2+a; v=v*2+b; }
            writeln!(out, "{u} {v}").unwrap();
        }
        return;
    }
    let rec = Recorder::default();
    let ctx = Context { threads: 2, memory: args[3].parse::<u64>().unwrap() << 20, seed: 0, observer: &rec };
    let t = Instant::now();
    let b = DatasetBuilder::begin(&ctx, &PathBuf::from("/tmp/data/out"), true, "x", Default::default());
    let mut b = b.unwrap();
    let job = IngestEdges { files: vec![PathBuf::from(&args[2])], out: "/tmp/data/out".into(), force: true, form: None, ids: IdChoice::Auto, header: None, source: None, target: None, weight: None, unweighted: false, relation: RelationOptions::default(), order: Order::None, node_count: None, nodes_file: None, features: None, missing_features_zero: false, labels: None, communities: None, splits: vec![], draw: vec![] };
    let files = EdgeFiles::open(&job).unwrap();
    rec.phase("read", None, Unit::Bytes);
    let mut spool = Spool::<Plain>::new(&b.scratch(), b.budget());
    let set = relabel::bitmap::read(&ctx, &files, &mut spool, ctx.memory / 4 * 8, 0).unwrap().unwrap();
    b.set_nodes(set.members()).unwrap();
    let mut spool = EdgeSpool::Plain(spool);
    let d = |n: u32| n.to_string();
    let built = b.build("edges", &mut spool, NodeMap::Rank(&set), &job.relation, &d, false).unwrap();
    rec.finish();
    println!("{:?}", built.entry);
    println!("merged {} spilled {}", built.merged, built.spilled);
    for p in rec.phases() { println!("{:30} {:8.3} s", p.name, p.seconds); }
    println!("total {:.3}", t.elapsed().as_secs_f64());
    let s = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", s.lines().find(|l| l.starts_with("VmHWM")).unwrap());
}
