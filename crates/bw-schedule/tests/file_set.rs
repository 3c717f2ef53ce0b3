//! A file set is a function of its description, and grows without changing what it has.

#![allow(clippy::unwrap_used)]

use bw_model::FileAddress;
use bw_schedule::distribution::DistributionSpec;
use bw_schedule::file_set::{FileSet, FileSetSpec, Object};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn constant(value: u64) -> DistributionSpec {
    DistributionSpec::Constant { value }
}

fn weighted(values: &[(u64, u64)]) -> DistributionSpec {
    DistributionSpec::Weighted {
        values: values.to_vec(),
    }
}

/// Fstress's SPECsfs97 at a load of `files` / 2.
fn specsfs97(files: u64) -> FileSetSpec {
    let sizes = [33, 21, 13, 10, 8, 5, 4, 3, 2].iter().enumerate();
    let mut sizes: Vec<_> = sizes.map(|(power, &w)| (1024 << power, w)).collect();
    sizes.push((1 << 20, 1));
    FileSetSpec {
        seed: 7,
        max_depth: 2,
        directories: constant(20),
        files: constant(files),
        symlinks: constant(1),
        empty_directories: constant(0),
        file_size: weighted(&sizes),
        file_popularity: weighted(&[(1000, 10), (1, 90)]),
        directory_popularity: constant(1),
        present_micro: 1_000_000,
    }
}

/// Returns size and presence of each object by path.
fn contents(set: &FileSet) -> BTreeMap<String, (u64, bool)> {
    (0..set.objects())
        .map(|object| {
            let size = match set.object(object) {
                Object::File(index) => set.files()[index].size,
                _ => 0,
            };
            (set.path(object, false), (size, set.is_present(object)))
        })
        .collect()
}

#[test]
fn specsfs97_has_21_directories() {
    let set = FileSet::new(&specsfs97(100)).unwrap();
    assert_eq!(set.directories().len(), 21);
    assert_eq!((set.files().len(), set.symlinks().len()), (2100, 21));
    // 26.7 KiB a file; 2100 files of a standard deviation of 108 KiB.
    let mean = set.bytes() as f64 / 2100.0 / 1024.0;
    assert!((19.6..33.8).contains(&mean), "{mean}");
}

#[test]
fn names_follow_from_numbers() {
    let mut spec = specsfs97(12);
    (spec.max_depth, spec.directories, spec.empty_directories) = (3, constant(2), constant(1));
    let set = FileSet::new(&spec).unwrap();
    assert_eq!(set.directories().len(), 7);
    let path = |object| set.path(set.number(object), false);
    assert_eq!(path(Object::Directory(0)), "");
    assert_eq!(path(Object::Directory(6)), "d1/d1");
    assert_eq!(path(Object::File(10)), "f10");
    assert_eq!(path(Object::File(83)), "d1/d1/f11");
    assert_eq!(set.path(set.number(Object::File(83)), true), "d1/d1/r11");
    assert_eq!(path(Object::Symlink(1)), "d0/l0");
    assert_eq!(path(Object::EmptyDirectory(2)), "d1/e0");
    assert_eq!(set.symlink_text(1), "f0");
    for number in 0..set.objects() {
        assert_eq!(set.number(set.object(number)), number);
    }
}

#[test]
fn every_name_is_used_once() {
    let mut spec = specsfs97(30);
    spec.empty_directories = constant(3);
    let set = FileSet::new(&spec).unwrap();
    let mut paths: Vec<_> = (0..set.objects())
        .map(|object| set.path(object, false))
        .collect();
    let files = 0..set.files().len();
    paths.extend(files.map(|file| set.path(set.number(Object::File(file)), true)));
    let all = paths.len();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), all);
}

#[test]
fn the_share_that_is_present_is_the_one_requested() {
    let mut spec = specsfs97(1000);
    spec.present_micro = 800_000;
    let set = FileSet::new(&spec).unwrap();
    let first = set.number(Object::File(0));
    let present = (first..first + 21_000)
        .filter(|&file| set.is_present(file))
        .count();
    // A binomial: 16,800 with a standard deviation of 58.
    assert!((16_570..17_030).contains(&present), "{present}");
}

#[test]
fn the_hash_is_of_what_is_stored_except_the_number_of_files() {
    let hash = |change: fn(&mut FileSetSpec)| {
        let mut spec = specsfs97(10);
        change(&mut spec);
        FileSet::new(&spec).unwrap().hash()
    };
    let base = hash(|_| {});
    assert_eq!(base, 17_290_096_222_908_396_425, "the same in every build");
    assert_eq!(hash(|spec| spec.files = constant(99)), base);
    assert_eq!(hash(|spec| spec.file_popularity = constant(1)), base);
    assert_ne!(hash(|spec| spec.seed = 8), base);
    assert_ne!(hash(|spec| spec.max_depth = 1), base);
    assert_ne!(hash(|spec| spec.present_micro = 5), base);
    assert_ne!(hash(|spec| spec.directories = constant(19)), base);
    assert_ne!(hash(|spec| spec.symlinks = constant(2)), base);
    assert_ne!(hash(|spec| spec.file_size = constant(1)), base);
    assert_ne!(hash(|spec| spec.empty_directories = constant(1)), base);
}

#[test]
fn what_cannot_be_made_is_refused() {
    let refused = |change: fn(&mut FileSetSpec)| {
        let mut spec = specsfs97(10);
        change(&mut spec);
        FileSet::new(&spec).unwrap_err()
    };
    assert!(refused(|spec| spec.max_depth = 0).contains("max_depth"));
    assert!(refused(|spec| spec.max_depth = 65).contains("max_depth"));
    assert!(refused(|spec| spec.present_micro = 1_000_001).contains("present_micro"));
    assert!(refused(|spec| spec.files = constant(1 << 27)).contains("134217728"));
    assert!(refused(|spec| spec.symlinks = constant(u64::MAX)).contains("134217728"));
    assert!(refused(|spec| spec.max_depth = 64).contains("1048576"));
    assert!(refused(|spec| spec.file_size = constant(FileAddress::BYTES)).contains("64 GiB"));
    assert!(refused(|spec| spec.file_size = weighted(&[])).contains("file_size: weighted"));
}

fn a_table(largest: u64) -> impl Strategy<Value = DistributionSpec> {
    prop_oneof![
        (0..=largest).prop_map(constant),
        prop::collection::vec((0..=largest, 1..9_u64), 1..5).prop_map(|v| weighted(&v)),
        (0..=largest).prop_map(move |low| DistributionSpec::Uniform { low, high: largest }),
        (1..=largest.max(1)).prop_map(|mean| DistributionSpec::Gamma {
            mean,
            shape_micro: 1_500_000
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_set_with_more_files_contains_the_smaller_one(
        seed in any::<u64>(), max_depth in 1..4_u32, directories in 0..4_u64, symlinks in a_table(2),
        empty_directories in a_table(2), file_size in a_table(100_000),
        files in prop::collection::vec((0..9_u64, 1..9_u64), 1..4), factor in 1..5_u64, present_micro in 0..=1_000_000_u32,
    ) {
        let spec = |factor: u64| FileSetSpec {
            seed, max_depth, present_micro,
            directories: DistributionSpec::Uniform { low: 0, high: directories }, symlinks: symlinks.clone(),
            empty_directories: empty_directories.clone(), file_size: file_size.clone(),
            files: weighted(&files.iter().map(|&(value, w)| (value * factor, w)).collect::<Vec<_>>()),
            file_popularity: constant(1), directory_popularity: constant(1),
        };
        let (small, large) = (FileSet::new(&spec(1)).unwrap(), FileSet::new(&spec(factor)).unwrap());
        prop_assert_eq!(small.hash(), large.hash());
        let (small, large) = (contents(&small), contents(&large));
        for (path, entry) in &small {
            prop_assert_eq!(large.get(path), Some(entry), "{}", path);
        }
    }
}
