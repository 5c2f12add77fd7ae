// Allocations under Rust's names: a method of a generic type, and a closure. 7171 bytes each.
mod inner {
    pub struct Shelf<T>(pub Vec<T>);
    impl<T> Shelf<T> {
        #[inline(never)]
        pub fn grow(&mut self, more: usize) {
            self.0.reserve_exact(more);
        }
    }
}

fn main() {
    let mut shelf = inner::Shelf::<u8>(Vec::new());
    shelf.grow(7171);
    std::process::exit((shelf.0.capacity() < 7171) as i32);
}
