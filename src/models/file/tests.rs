//! Round trips, and files of every wrong kind with their messages.

use std::fs;

use super::*;

fn entry(i: usize, k: usize) -> f32 {
    (i * 100 + k) as f32 - 3.5
}

fn sample(path: &Path) -> (Matrix, Matrix) {
    let (w, bias) = (Matrix::from_fn(3, 20, entry), Matrix::from_fn(1, 3, entry));
    let texts = Texts::from([(text::CONFIG.to_string(), "[model]\nstate = 3\n".to_string())]);
    write(
        path,
        &[Tensor::matrix(name::W, w.view()), Tensor::vector(name::BIAS, bias.view())],
        &texts,
    )
    .unwrap();
    (w, bias)
}

fn message<T>(result: Result<T>, path: &Path) -> String {
    let error = result.err().expect("an error").to_string();
    error.replace(&path.display().to_string(), "m")
}

#[test]
fn what_is_written_reads_back_to_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let (w, bias) = sample(&path);
    let file = ModelFile::open(&path).unwrap();
    assert_eq!(file.names(), ["layer0.W", "layer0.bias"]);
    assert_eq!(file.shape(name::BIAS), Some(&[3][..]));
    assert_eq!(file.text(text::CONFIG).unwrap(), "[model]\nstate = 3\n");
    assert_eq!(file.matrix(name::W, 3, 20).unwrap().view().padded(), w.view().padded());
    assert_eq!(file.vector(name::BIAS, 3).unwrap().view().padded(), bias.view().padded());
    let bytes = fs::read(&path).unwrap();
    sample(&path);
    assert_eq!(fs::read(&path).unwrap(), bytes, "the same bytes again");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn the_library_of_the_format_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let (w, _) = sample(&path);
    let bytes = fs::read(&path).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let found = tensors.tensor(name::W).unwrap();
    assert_eq!((found.dtype(), found.shape()), (Dtype::F32, &[3, 20][..]));
    let floats: Vec<f32> =
        found.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(floats[20..40], *w.row(1));
}

#[test]
fn empty_tensors_and_files_are_fine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let none = Matrix::zeros(0, 4);
    write(&path, &[Tensor::matrix("e", none.view())], &Texts::new()).unwrap();
    assert_eq!(ModelFile::open(&path).unwrap().matrix("e", 0, 4).unwrap().rows(), 0);
    write(&path, &[], &Texts::new()).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let expected = "m: tensor e is missing (found no tensors, expected one of shape [1, 1])";
    assert_eq!(message(file.matrix("e", 1, 1), &path), expected);
}

#[test]
fn tensors_of_another_kind_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    sample(&path);
    let file = ModelFile::open(&path).unwrap();
    let found = message(file.matrix(name::THETA, 2, 3), &path);
    let expected = "m: tensor head.Theta is missing (found layer0.W, layer0.bias, expected one of \
                    shape [2, 3])";
    assert_eq!(found, expected);
    let found = message(file.matrix(name::W, 20, 3), &path);
    assert_eq!(found, "m: tensor layer0.W: shape (found [3, 20], expected [20, 3])");
    let found = message(file.matrix(name::BIAS, 1, 3), &path);
    assert_eq!(found, "m: tensor layer0.bias: shape (found [3], expected [1, 3])");
    let found = message(file.text(text::CLASSES), &path);
    assert_eq!(found, "m: text classes (found none, expected one in the metadata)");
    fs::write(&path, with_header(r#"{"w":{"dtype":"F64","shape":[1,1],"data_offsets":[0,8]}}"#, 8))
        .unwrap();
    let found = message(ModelFile::open(&path).unwrap().matrix("w", 1, 1), &path);
    assert_eq!(found, "m: tensor w: type (found F64, expected F32)");
}

fn with_header(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn damaged_files_are_refused_before_anything_is_allocated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        message(ModelFile::open(&path), &path)
    };
    assert_eq!(open(b"abc"), "m: damaged model file (found 3 bytes, expected safetensors)");
    let found = open(b"PAR1PAR1PAR1");
    assert!(found.starts_with("m: damaged model file (found a header of 35"), "{found}");
    let whole = with_header(r#"{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#, 16);
    let expected =
        "m: damaged model file: data (found 15 bytes, expected 16 bytes as its header says)";
    assert_eq!(open(&whole[..whole.len() - 1]), expected);
    let wrong = [
        r#"{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,16]}}"#,
        r#"{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]}}"#,
        r#"{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]}}"#,
        r#"{"w":{"dtype":"F32"}}"#,
        "not JSON",
    ];
    for header in wrong {
        let found = open(&with_header(header, 16));
        assert!(
            found.starts_with("m: damaged model file (found a header that cannot be read: "),
            "{found}"
        );
    }
    let found = open(&with_header(r#"{"__metadata__":{"ignn_format_version":"9"}}"#, 0));
    assert_eq!(found, "m: version of the model file (found \"9\", expected \"1\" or \"2\")");
}

/// Also in the header: its length, names, shapes, texts and padding.
#[test]
fn every_flipped_bit_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    sample(&path);
    let whole = fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).unwrap();
        assert!(ModelFile::open(&path).is_err(), "bit {bit}");
    }
    let mut bytes = whole;
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, &bytes).unwrap();
    let found = message(ModelFile::open(&path), &path);
    assert!(found.starts_with("m: checksum (found "), "{found}");
    let end = ": the file is damaged or was edited: restore it, or train again)";
    assert!(found.ends_with(end), "{found}");
}

#[test]
fn files_without_a_checksum_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    for texts in ["{}", r#"{"ignn_format_version":"1"}"#] {
        let header = format!(r#"{{"__metadata__":{texts}}}"#);
        fs::write(&path, with_header(&header, 0)).unwrap();
        ModelFile::open(&path).unwrap();
    }
    fs::write(&path, with_header(r#"{"__metadata__":{"ignn_format_version":"2"}}"#, 0)).unwrap();
    let expected = "m: text xxh3 (found none, expected one: the file is damaged or was edited: \
                    restore it, or train again)";
    assert_eq!(message(ModelFile::open(&path), &path), expected);
    // As another program may lay it out.
    let texts = r#"{"__metadata__":{"xxh3": "0123456789abcdef"}}"#;
    fs::write(&path, with_header(texts, 0)).unwrap();
    assert!(ModelFile::open(&path).is_err());
}

#[test]
fn rows_without_numbers_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let header = r#"{"e":{"dtype":"F32","shape":[1152921504606846976,0],"data_offsets":[0,0]}}"#;
    fs::write(&path, with_header(header, 0)).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let found = message(file.matrix("e", 1 << 60, 0), &path);
    let expected = "m: tensor e: shape (found [1152921504606846976, 0], expected at least one \
                    number per row)";
    assert_eq!(found, expected);
    assert_eq!(file.shape("e"), Some(&[1 << 60, 0][..]));
}

#[test]
#[should_panic(expected = "two tensors named w")]
fn names_are_unique() {
    let w = Matrix::zeros(1, 1);
    header(&[Tensor::matrix("w", w.view()), Tensor::matrix("w", w.view())], &Texts::new());
}
