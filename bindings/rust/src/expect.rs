//! Expectations. heft judges them, because it knows the call sites. Its message becomes a panic here, so that one test
//! fails and the others go on.

use std::cell::RefCell;
use std::ffi::CStr;
use std::io;
use std::os::raw::{c_char, c_int};

use crate::interface;
use crate::region::{Region, Scope, Stats};

/// Expects that a number of a region is at most `limit`: `expect_le!(region, allocations, 3)`.
///
/// The number is a field of [`Stats`](crate::Stats). If it is greater, this panics and says by how much, and which call
/// sites allocated in the region. It is `true` if the number was checked, and `false` where nobody counts.
#[macro_export]
macro_rules! expect_le {
    ($region:expr, $field:ident, $limit:expr $(,)?) => {
        $crate::__expect!($region, $field, AtMost, $limit)
    };
}

/// Expects that a number of a region is `value`: `expect_eq!(region, live_blocks, 0)`. All else is as in [`expect_le!`].
///
/// [`expect_le!`]: crate::expect_le
#[macro_export]
macro_rules! expect_eq {
    ($region:expr, $field:ident, $value:expr $(,)?) => {
        $crate::__expect!($region, $field, Equal, $value)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __expect {
    ($region:expr, $field:ident, $relation:ident, $value:expr) => {{
        let stats = $crate::Stats::default();
        let field = $crate::__private::Field::new(&stats, &stats.$field, concat!(stringify!($field), "\0"));
        let place = $crate::__private::Place { file: concat!(file!(), "\0"), line: line!() };
        $crate::__private::expect(&$region, field, $crate::__private::Relation::$relation, ($value) as i64, place)
    }};
}

/// A field of `Stats`.
pub struct Field {
    at: usize,
    name: &'static str, // ends with a zero
}

impl Field {
    /// `number` is a field of `stats`.
    pub fn new<T>(stats: &Stats, number: &T, name: &'static str) -> Field {
        Field { at: number as *const T as usize - stats as *const Stats as usize, name }
    }
}

/// `enum heft_relation`
#[derive(Clone, Copy)]
pub enum Relation {
    /// At most as great
    AtMost = 0,
    /// Equal
    Equal = 1,
}

/// Where the macro stands.
pub struct Place {
    /// Ends with a zero.
    pub file: &'static str,
    /// Of the file, from 1.
    pub line: u32,
}

thread_local! {
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// heft calls this, in the thread that expects, when an expectation does not hold.
unsafe extern "C" fn keep_message(message: *const c_char) {
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    MESSAGE.with(|kept| *kept.borrow_mut() = text);
}

/// What the macros do.
#[track_caller]
pub fn expect<S: Scope>(region: &Region<S>, field: Field, relation: Relation, value: i64, place: Place) -> bool {
    let judged = region.begun().and_then(|raw| {
        let expect_or = interface::heft_expect_or().ok_or_else(interface::absent)?;
        let (name, file) = (field.name.as_ptr().cast(), place.file.as_ptr().cast());
        let line = place.line as c_int;
        match unsafe { expect_or(raw, field.at, relation as c_int, value, name, file, line, keep_message) } {
            -1 => Err(io::Error::last_os_error()),
            holds => Ok(holds == 1),
        }
    });
    match judged {
        Ok(true) => true,
        Ok(false) => panic!("{}", MESSAGE.with(|kept| kept.take()).trim_end()),
        Err(why) if why.raw_os_error() == Some(interface::ENOSYS) => false,
        Err(why) => panic!("heft cannot check this: {}", why),
    }
}
