//! [`Trace`]: what a program does to the files of a folder, by its system calls.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::tracer;

/// The variable with the folder of a trace.
const OUTPUT: &str = "TRACE_OUTPUT";
/// The variable with the folder whose files are traced.
const FOLDER: &str = "TRACE_FOLDER";

/// What a system call did to a file, by its path in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FileChange {
    Created {
        path: PathBuf,
        is_folder: bool,
    },
    Resized {
        path: PathBuf,
        bytes: u64,
    },
    Written {
        path: PathBuf,
        at: u64,
        data: Vec<u8>,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
    },
    Linked {
        from: PathBuf,
        to: PathBuf,
    },
    Removed {
        path: PathBuf,
    },
    Synced {
        path: PathBuf,
    },
}

/// A system call that has succeeded, in the order in which they did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TracedCall {
    /// When it was called, by [`now_ns`].
    pub(super) called_ns: u64,
    /// When it had returned.
    pub(super) returned_ns: u64,
    pub(super) change: FileChange,
}

/// The monotonic clock, which all processes share.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

/// The calls of a program on the files of a folder.
#[derive(Debug)]
pub(super) struct Trace {
    output: tempfile::TempDir,
    folder: PathBuf,
}

impl Trace {
    /// Of a folder, which exists.
    pub(super) fn of(folder: &Path) -> Self {
        Self {
            output: tempfile::tempdir().unwrap(),
            folder: folder.canonicalize().unwrap(),
        }
    }

    /// A command that runs another one, whose arguments are added to it. If it is killed, so is the other one.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = tracer::command("chaos::trace::run", program);
        command
            .env(OUTPUT, self.output.path())
            .env(FOLDER, &self.folder);
        command
    }

    /// Whether this system lets a process trace another one. Prints a note if not.
    pub(super) fn is_permitted() -> bool {
        let folder = tempfile::tempdir().unwrap();
        let trace = Self::of(folder.path());
        let mut touch = trace.command(Path::new("touch"));
        touch.arg(trace.folder.join("file"));
        let output = touch.output().unwrap();
        let permitted = output.status.success() && !trace.calls().is_empty();
        if !permitted {
            let output = String::from_utf8_lossy(&output.stdout);
            eprintln!("SKIPPED: no process can trace another one by ptrace: {output}");
        }
        permitted
    }

    /// The calls so far. The tracer writes each one before it lets the program continue.
    pub(super) fn calls(&self) -> Vec<TracedCall> {
        let Ok(file) = File::open(self.output.path().join("calls")) else {
            return Vec::new();
        };
        let mut data = Vec::new();
        let mut written = File::open(self.output.path().join("data")).unwrap();
        written.read_to_end(&mut data).unwrap();
        let mut data = data.as_slice();
        // The tracer may have been killed within its last line.
        let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
        let mut calls = Vec::new();
        for line in lines {
            let Ok((mut call, bytes)) = serde_json::from_slice::<(TracedCall, usize)>(&line) else {
                break;
            };
            if let FileChange::Written { data: of_call, .. } = &mut call.change {
                let (this, rest) = data.split_at(bytes);
                (*of_call, data) = (this.to_vec(), rest);
            }
            calls.push(call);
        }
        calls
    }
}

/// The file of a trace, for the tracer.
#[derive(Debug)]
struct TraceWriter {
    calls: File,
    data: File,
}

impl TraceWriter {
    fn create(folder: &Path) -> Self {
        let create = |name| {
            let mut options = OpenOptions::new();
            options
                .append(true)
                .create(true)
                .open(folder.join(name))
                .unwrap()
        };
        Self {
            calls: create("calls"),
            data: create("data"),
        }
    }

    fn write(&mut self, mut call: TracedCall) {
        let mut bytes = 0;
        if let FileChange::Written { data, .. } = &mut call.change {
            bytes = data.len();
            self.data.write_all(&std::mem::take(data)).unwrap();
        }
        let mut line = serde_json::to_vec(&(call, bytes)).unwrap();
        line.push(b'\n');
        self.calls.write_all(&line).unwrap();
    }
}

/// The tracer, for [`Trace::command`].
#[test]
#[ignore = "a process that other tests start"]
fn run() {
    let (Some(output), Some(folder)) = (std::env::var_os(OUTPUT), std::env::var_os(FOLDER)) else {
        return;
    };
    let writer = TraceWriter::create(Path::new(&output));
    file_calls::run(
        &tracer::program_of_this_process(),
        PathBuf::from(folder),
        writer,
    );
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod file_calls {
    pub(super) fn run(_: &[std::ffi::OsString], _: std::path::PathBuf, _: super::TraceWriter) {
        panic!("the tracer knows the system calls of Linux on x86-64 only");
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod file_calls {
    use std::collections::HashMap;
    use std::ffi::{OsString, c_long};
    use std::fs;
    use std::io::IoSliceMut;
    use std::os::unix::ffi::OsStringExt;
    use std::path::{Path, PathBuf};

    use nix::libc::{self, user_regs_struct};
    use nix::sys::uio::{RemoteIoVec, process_vm_readv};
    use nix::unistd::Pid;

    use super::*;

    /// Runs a command to its end.
    pub(super) fn run(command: &[OsString], folder: PathBuf, writer: TraceWriter) {
        let mut files = FileTracer {
            folder,
            writer,
            calls: HashMap::new(),
        };
        tracer::trace(command, &mut files);
    }

    struct FileTracer {
        folder: PathBuf,
        writer: TraceWriter,
        /// What the threads are about to do.
        calls: HashMap<Pid, (u64, Vec<FileChange>)>,
    }

    impl tracer::Tracer for FileTracer {
        fn at_call(&mut self, thread: Pid, registers: user_regs_struct) {
            let result = i64::from_ne_bytes(registers.rax.to_ne_bytes());
            // What a call returns before it has begun.
            if result == -i64::from(libc::ENOSYS) {
                let call = Call {
                    thread,
                    registers,
                    folder: &self.folder,
                };
                let changes = call.changes();
                if !changes.is_empty() {
                    self.calls.insert(thread, (now_ns(), changes));
                }
            } else if let Some((called_ns, changes)) = self.calls.remove(&thread)
                && result >= 0
            {
                self.record(&registers, called_ns, changes);
            }
        }
    }

    impl FileTracer {
        fn record(
            &mut self,
            registers: &user_regs_struct,
            called_ns: u64,
            changes: Vec<FileChange>,
        ) {
            let returned_ns = now_ns();
            for mut change in changes {
                if let FileChange::Written { path, at, data } = &mut change {
                    let bytes = usize::try_from(registers.rax).unwrap();
                    if is_copy(registers) {
                        *data = vec![0; bytes];
                        let copied = File::open(self.folder.join(path)).unwrap();
                        copied.read_exact_at(data, *at).unwrap();
                    } else {
                        data.truncate(bytes);
                    }
                }
                self.writer.write(TracedCall {
                    called_ns,
                    returned_ns,
                    change,
                });
            }
        }
    }

    fn number(registers: &user_regs_struct) -> c_long {
        c_long::from_ne_bytes(registers.orig_rax.to_ne_bytes())
    }

    /// Whether the data comes from another file.
    fn is_copy(registers: &user_regs_struct) -> bool {
        [libc::SYS_copy_file_range, libc::SYS_sendfile].contains(&number(registers))
    }

    /// A system call that begins.
    struct Call<'a> {
        thread: Pid,
        registers: user_regs_struct,
        folder: &'a Path,
    }

    impl Call<'_> {
        /// What it does to the files of the folder if it succeeds.
        fn changes(&self) -> Vec<FileChange> {
            let r = &self.registers;
            let cwd = u64::from_ne_bytes(i64::from(libc::AT_FDCWD).to_ne_bytes());
            match number(r) {
                libc::SYS_open => self.open(cwd, r.rdi, r.rsi),
                libc::SYS_creat => self.open(cwd, r.rdi, FLAGS_OF_CREAT),
                libc::SYS_openat => self.open(r.rdi, r.rsi, r.rdx),
                libc::SYS_write => self.write(r.rdi, None),
                libc::SYS_pwrite64 => self.write(r.rdi, Some(r.r10)),
                libc::SYS_sendfile => self.copy(r.rdi, None),
                libc::SYS_copy_file_range => self.copy(r.rdx, Some(r.r10).filter(|at| *at != 0)),
                libc::SYS_ftruncate => self.resize(self.file(r.rdi), r.rsi),
                libc::SYS_truncate => self.resize(self.path(cwd, r.rdi), r.rsi),
                libc::SYS_fsync | libc::SYS_fdatasync => self.sync(r.rdi),
                libc::SYS_rename => self.rename((cwd, r.rdi), (cwd, r.rsi)),
                libc::SYS_renameat | libc::SYS_renameat2 => {
                    self.rename((r.rdi, r.rsi), (r.rdx, r.r10))
                }
                libc::SYS_link => self.link((cwd, r.rdi), (cwd, r.rsi)),
                libc::SYS_linkat => self.link((r.rdi, r.rsi), (r.rdx, r.r10)),
                libc::SYS_unlink | libc::SYS_rmdir => self.remove(cwd, r.rdi),
                libc::SYS_unlinkat => self.remove(r.rdi, r.rsi),
                libc::SYS_mkdir => self.make_folder(cwd, r.rdi),
                libc::SYS_mkdirat => self.make_folder(r.rdi, r.rsi),
                number => {
                    let is_unknown = UNKNOWN.contains(&number) && self.file(r.rdi).is_some();
                    assert!(!is_unknown, "the tracer does not know system call {number}");
                    Vec::new()
                }
            }
        }

        fn open(&self, folder: u64, name: u64, flags: u64) -> Vec<FileChange> {
            let has = |flag: i32| flags & u64::from(flag.unsigned_abs()) != 0;
            if !has(libc::O_CREAT) && !has(libc::O_TRUNC) {
                return Vec::new();
            }
            let Some(path) = self.path(folder, name) else {
                return Vec::new();
            };
            match fs::metadata(self.folder.join(&path)) {
                Err(_) if has(libc::O_CREAT) => vec![FileChange::Created {
                    path,
                    is_folder: false,
                }],
                Ok(_) if has(libc::O_TRUNC) => vec![FileChange::Resized { path, bytes: 0 }],
                _ => Vec::new(),
            }
        }

        fn write(&self, file: u64, at: Option<u64>) -> Vec<FileChange> {
            let Some(path) = self.file(file) else {
                return Vec::new();
            };
            let flags = self.flags(file);
            let at = at.unwrap_or_else(|| self.position(file, &path, flags));
            let data = self.bytes(self.registers.rsi, self.registers.rdx);
            let mut changes = vec![FileChange::Written {
                path: path.clone(),
                at,
                data,
            }];
            if flags & libc::O_DSYNC != 0 {
                changes.push(FileChange::Synced { path });
            }
            changes
        }

        /// The data is read when it was copied.
        fn copy(&self, to: u64, at: Option<u64>) -> Vec<FileChange> {
            let Some(path) = self.file(to) else {
                return Vec::new();
            };
            let at = match at {
                Some(at) => u64::from_ne_bytes(self.bytes(at, 8).try_into().unwrap()),
                None => self.position(to, &path, self.flags(to)),
            };
            vec![FileChange::Written {
                path,
                at,
                data: Vec::new(),
            }]
        }

        fn resize(&self, path: Option<PathBuf>, bytes: u64) -> Vec<FileChange> {
            path.into_iter()
                .map(|path| FileChange::Resized { path, bytes })
                .collect()
        }

        fn sync(&self, file: u64) -> Vec<FileChange> {
            let path = self.file(file);
            path.into_iter()
                .map(|path| FileChange::Synced { path })
                .collect()
        }

        fn rename(&self, from: (u64, u64), to: (u64, u64)) -> Vec<FileChange> {
            match (self.path(from.0, from.1), self.path(to.0, to.1)) {
                (Some(from), Some(to)) => vec![FileChange::Renamed { from, to }],
                (None, None) => Vec::new(),
                paths => panic!("a rename across the folder: {paths:?}"),
            }
        }

        fn link(&self, from: (u64, u64), to: (u64, u64)) -> Vec<FileChange> {
            match (self.path(from.0, from.1), self.path(to.0, to.1)) {
                (Some(from), Some(to)) => vec![FileChange::Linked { from, to }],
                (None, None) => Vec::new(),
                paths => panic!("a link across the folder: {paths:?}"),
            }
        }

        fn remove(&self, folder: u64, name: u64) -> Vec<FileChange> {
            let path = self.path(folder, name);
            path.into_iter()
                .map(|path| FileChange::Removed { path })
                .collect()
        }

        fn make_folder(&self, folder: u64, name: u64) -> Vec<FileChange> {
            let path = self.path(folder, name);
            path.into_iter()
                .map(|path| FileChange::Created {
                    path,
                    is_folder: true,
                })
                .collect()
        }

        /// What the system knows of the thread.
        fn proc(&self, name: &str) -> PathBuf {
            Path::new("/proc").join(self.thread.to_string()).join(name)
        }

        /// The path in the folder of an open file that is there.
        fn file(&self, file: u64) -> Option<PathBuf> {
            let path = fs::read_link(self.proc(&format!("fd/{file}"))).ok()?;
            let path = path.strip_prefix(self.folder).ok()?;
            self.folder.join(path).exists().then(|| path.to_owned())
        }

        /// The path in the folder of a name.
        fn path(&self, folder: u64, name: u64) -> Option<PathBuf> {
            let name = PathBuf::from(self.text(name));
            let descriptor = folder as i32;
            let base = match descriptor {
                _ if name.is_absolute() => PathBuf::new(),
                libc::AT_FDCWD => fs::read_link(self.proc("cwd")).ok()?,
                descriptor => fs::read_link(self.proc(&format!("fd/{descriptor}"))).ok()?,
            };
            let path = base.join(name);
            Some(path.strip_prefix(self.folder).ok()?.to_owned())
        }

        /// The field of an open file.
        fn info(&self, file: u64, field: &str) -> String {
            let info = fs::read_to_string(self.proc(&format!("fdinfo/{file}"))).unwrap();
            let line = info.lines().find_map(|line| line.strip_prefix(field));
            line.unwrap().trim().to_owned()
        }

        fn flags(&self, file: u64) -> i32 {
            i32::from_str_radix(&self.info(file, "flags:"), 8).unwrap()
        }

        fn position(&self, file: u64, path: &Path, flags: i32) -> u64 {
            if flags & libc::O_APPEND != 0 {
                return fs::metadata(self.folder.join(path)).unwrap().len();
            }
            self.info(file, "pos:").parse().unwrap()
        }

        fn bytes(&self, at: u64, bytes: u64) -> Vec<u8> {
            let mut data = vec![0; usize::try_from(bytes).unwrap()];
            if data.is_empty() {
                return data;
            }
            let remote = RemoteIoVec {
                base: usize::try_from(at).unwrap(),
                len: data.len(),
            };
            let read = process_vm_readv(self.thread, &mut [IoSliceMut::new(&mut data)], &[remote]);
            data.truncate(read.unwrap());
            data
        }

        /// A text that ends with a zero.
        fn text(&self, at: u64) -> OsString {
            const PAGE_BYTES: u64 = 4096;
            let mut text = Vec::new();
            loop {
                let from = at + text.len() as u64;
                // The next page may not be there.
                text.extend(self.bytes(from, PAGE_BYTES - from % PAGE_BYTES));
                if let Some(end) = text.iter().position(|byte| *byte == 0) {
                    text.truncate(end);
                    return OsString::from_vec(text);
                }
            }
        }
    }

    const FLAGS_OF_CREAT: u64 = 0o1101;

    /// Calls that would change files or sync them in other ways.
    const UNKNOWN: [c_long; 8] = [
        libc::SYS_writev,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_fallocate,
        libc::SYS_syncfs,
        libc::SYS_vmsplice,
        libc::SYS_symlinkat,
        libc::SYS_openat2,
    ];
}
