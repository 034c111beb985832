package loop

import "slices"

// maxWords is how many words of an input a wording has.
const maxWords = 12

// A words is digests of the first words of an input. Case, and what joins the parts of a name, make no difference, so
// that fooBar, foo_bar and FooBar are one word.
type words [maxWords]uint16

// A wording is what the calls of a series asked for: the last one in its order, and the words of those before it.
type wording struct{ last, older words }

// add adds the words of a text, up to the room there is.
func (w *words) add(text []byte) {
	n := w.count()
	for len(text) > 0 && n < maxWords {
		word, rest := nextWord(text)
		if word != 0 {
			w[n] = word
			n++
		}
		text = rest
	}
}

func (w *words) count() (n int) {
	for n < maxWords && w[n] != 0 {
		n++
	}
	return n
}

func (w *words) has(word uint16) bool { return slices.Contains(w[:], word) }

// nextWord returns the digest of the word that a text begins with, and what is after it. The digest is 0 where there is
// no word, or a short one, such as an article, the name of an option or a number of one or two digits.
func nextWord(text []byte) (digest uint16, rest []byte) {
	const offset, prime = 2166136261, 16777619 // FNV-1a, without memory
	sum, length, letters := uint32(offset), 0, 0
	for i, b := range text {
		switch {
		case b == '_' || b == '-':
			continue
		case isLetter(b) || b >= 0x80:
			b |= 0x20
			letters++
		case !isDigit(b):
			return wordDigest(sum, length, letters), text[i+1:]
		}
		sum = (sum ^ uint32(b)) * prime
		length++
	}
	return wordDigest(sum, length, letters), nil
}

func wordDigest(sum uint32, length, letters int) uint16 {
	if letters < 3 && length < 4 {
		return 0
	}
	return max(uint16(sum>>16^sum&0xffff), 1) //nolint:gosec // both halves are in it
}

// rephrases takes the next input of a series, and reports whether it asks for the same in other words. It does not if
// what differs from the last input is one word in one place, or words in one place that were not there before: whoever
// looks up one name after the other does that, also with a text around the name that stays. The first input always
// does, and so do inputs that differ in nothing that is a word.
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

// keep makes these the words of the last input. The oldest words are forgotten.
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
