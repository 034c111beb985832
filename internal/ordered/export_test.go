package ordered

// Kept is how many items the memory of the heap still refers to.
func (h *Heap[T]) Kept() (n int) {
	for _, d := range h.all[:cap(h.all)] {
		if d != nil {
			n++
		}
	}
	return n
}

// Place is where the item stands.
func (d *Due[T]) Place() int { return d.place }
