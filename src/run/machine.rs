//! The machine as this process sees it: cores, memory limit, peak memory, processor, date. They are
//! read from `/proc` and the control group; if these are missing, there is a default, never an
//! error.

use std::fs;
use std::path::Path;

/// Assumed where the system does not say how much memory it has.
const MEMORY_UNKNOWN: u64 = 4 << 30;

/// Cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory this process may use: the machine's, or its control group's limit where that is
/// lower.
pub fn memory() -> u64 {
    let machine =
        fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib_field(&text, "MemTotal:"));
    let machine = machine.unwrap_or(MEMORY_UNKNOWN);
    group_limit().map_or(machine, |limit| limit.min(machine))
}

/// Peak resident memory of this process in bytes, where the system reports it.
pub fn peak_memory() -> Option<u64> {
    fs::read_to_string("/proc/self/status").ok().and_then(|text| kib_field(&text, "VmHWM:"))
}

/// Resets [`peak_memory`] to what is resident now; does nothing where the system cannot.
pub fn reset_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The processor's name, where the system reports it.
pub fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).trim().into())
}

/// Today's date in UTC, such as `2026-11-17`.
pub fn today() -> String {
    chrono::Utc::now().format("%Y-%m-%d").to_string()
}

/// The lowest `memory.max` from this process's group (cgroup v2) up to the root.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(group.trim_start_matches('/'));
    let limits = own.ancestors().take_while(|directory| directory.starts_with(root)).filter_map(
        |directory| {
            // "max" means no limit, and does not parse.
            fs::read_to_string(directory.join("memory.max")).ok()?.trim().parse().ok()
        },
    );
    limits.min()
}

/// A line such as `MemTotal:  24576000 kB`, in bytes.
fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_are_read_in_bytes() {
        let text = "MemTotal:       24576 kB\nMemFree:  1 kB\n";
        assert_eq!(kib_field(text, "MemTotal:"), Some(24576 * 1024));
        assert_eq!(kib_field(text, "Swap:"), None);
        assert_eq!(kib_field("MemTotal: many kB", "MemTotal:"), None);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        assert!(cores() >= 1 && memory() > 0);
    }
}
