package loop

import "slices"

// A words is digests of the first words of an input. Case makes no difference. A name such as fooBar is its parts, and
// then all of it, so that it has something in common with foo_baz and is the same as foobar.
type words [maxWords]uint16

// A wording is what the calls of a series asked for: the last one in its order, and the words of those before it.
type wording struct{ last, older words }

// add adds the words of a text, up to the room there is.
func (w *words) add(text []byte) {
	n, parts := w.count(), 0
	name, part := newWord(), newWord()
	put := func(word word) {
		if digest := word.digest(); digest != 0 && n < maxWords {
			w[n] = digest
			n++
		}
	}
	for i := 0; i < len(text) && n < maxWords; i++ {
		b := text[i]
		inside := inName(b)
		if !inside || begins(text, i) {
			put(part)
			part = newWord()
			parts++
		}
		switch {
		case inside:
			name.add(b)
			part.add(b)
		case b != '_' && b != '-':
			if parts > 1 {
				put(name)
			}
			name, parts = newWord(), 0
		}
	}
	put(part)
	if parts > 0 {
		put(name)
	}
}

func begins[T string | []byte](name T, i int) bool {
	return i > 0 && 'A' <= name[i] && name[i] <= 'Z' && 'a' <= name[i-1] && name[i-1] <= 'z'
}

func (w *words) count() (n int) {
	for n < maxWords && w[n] != 0 {
		n++
	}
	return n
}

func (w *words) has(word uint16) bool { return slices.Contains(w[:], word) }

// A word is the FNV-1a of what it has of letters and digits, without memory.
type word struct {
	sum             uint32
	length, letters int
}

func newWord() word { return word{sum: 2166136261} }

func (w *word) add(b byte) {
	if !isDigit(b) {
		b |= 0x20
		w.letters++
	}
	w.sum = (w.sum ^ uint32(b)) * 16777619
	w.length++
}

// digest returns 0 for a short word, such as an article, the name of an option or a number of one or two digits.
func (w *word) digest() uint16 {
	if w.letters < 3 && w.length < 4 {
		return 0
	}
	return max(uint16(w.sum>>16^w.sum&0xffff), 1) //nolint:gosec // both halves are in it
}

// rephrases takes the next input of a series, and reports whether it asks for the same in other words. It does not if
// what differs from the last input is one word, or words in one place that were not there before, as with one name
// after the other. The first input always does, and one that differs in nothing that is a word.
func (w *wording) rephrases(next *words) bool {
	first, last, lastEnd := 0, w.last.count(), next.count()
	for first < min(last, lastEnd) && w.last[first] == next[first] {
		first++
	}
	for last > first && lastEnd > first && w.last[last-1] == next[lastEnd-1] {
		last--
		lastEnd--
	}
	again := first == last || first == lastEnd
	if last-first > 1 || lastEnd-first > 1 {
		again = again || slices.ContainsFunc(next[first:lastEnd], func(word uint16) bool {
			return w.last.has(word) || w.older.has(word)
		})
	}
	w.keep(next)
	return again
}

// keep makes these the words of the last input.
func (w *wording) keep(next *words) {
	for _, word := range w.last {
		if word != 0 && !next.has(word) && !w.older.has(word) {
			copy(w.older[1:], w.older[:maxWords-1])
			w.older[0] = word
		}
	}
	w.last = *next
}

// walk calls do with the words of the state.
func (w *wording) walk(do func(word *uint64)) {
	for _, list := range []*words{&w.last, &w.older} {
		for i := 0; i < maxWords; i += 4 {
			word := uint64(list[i]) | uint64(list[i+1])<<16 | uint64(list[i+2])<<32 | uint64(list[i+3])<<48
			do(&word)
			list[i], list[i+1] = uint16(word), uint16(word>>16)       //nolint:gosec // a part of it
			list[i+2], list[i+3] = uint16(word>>32), uint16(word>>48) //nolint:gosec // a part of it
		}
	}
}

func inName(b byte) bool { return isLetter(b) || isDigit(b) || b >= 0x80 }

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }
