use std::io::{self, Write};
use std::os::raw::c_int;

use crate::interface;

/// Whether this process is sampled and sampling is switched on. A handler answers 403 where it is not.
#[inline]
pub fn sampling_active() -> bool {
    interface::heft_sampling_active().map_or(0, |active| unsafe { active() }) == 1
}

/// Writes this process's heap profile, as of now: pprof's format, packed, as `/debug/pprof/heap` serves it.
///
/// `out` may be a file, a socket or a `Vec<u8>`. The `heft run` or `heft agent` that holds the process makes the profile.
/// This thread waits for it, so an async handler calls it in `spawn_blocking`. If this fails, nothing has been written
/// unless `out` itself failed. docs/bindings.md lists the errors.
pub fn pprof_dump(out: &mut impl Write) -> io::Result<()> {
    let mut profile = imp::into_memory()?;
    io::copy(&mut profile, out)?;
    Ok(())
}

/// The same to a file descriptor, without memory in between. If it fails, a part of the profile may have been written.
pub fn pprof_dump_fd(fd: c_int) -> io::Result<()> {
    let dump = interface::heft_pprof_dump().ok_or_else(interface::absent)?;
    interface::checked(unsafe { dump(fd) })
}

#[cfg(target_os = "linux")]
mod imp {
    use std::fs::File;
    use std::io::{self, Seek};
    use std::os::raw::{c_char, c_int, c_uint};
    use std::os::unix::io::{AsRawFd, FromRawFd};

    extern "C" {
        fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    }
    const MFD_CLOEXEC: c_uint = 1;

    /// The profile in a file that has no name.
    pub fn into_memory() -> io::Result<File> {
        if crate::interface::heft_pprof_dump().is_none() {
            return Err(crate::interface::absent());
        }
        let fd = unsafe { memfd_create(b"heft-profile\0".as_ptr().cast(), MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut file = unsafe { File::from_raw_fd(fd) };
        super::pprof_dump_fd(file.as_raw_fd())?;
        file.rewind()?;
        Ok(file)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    pub fn into_memory() -> std::io::Result<std::io::Empty> {
        Err(crate::interface::absent())
    }
}
