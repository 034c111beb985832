package alike

import "bytes"

// How long the first line of a failure is that says something, and what is compared of it, in bytes.
const (
	leastLine = 20
	mostLine  = 60
)

// Failure returns what the last outcome, which is a failure, has in common with others: of the same input, all but the
// words that have a digit; of another input, its first line, because the others often echo the input.
func (r *Reader) Failure() (all, first uint64) {
	r.spare = r.spare[:0]
	for said := r.said; len(said) > 0; {
		n, digit := 0, false
		for n < len(said) && isWord(said[n]) {
			digit = digit || isDigit(said[n])
			n++
		}
		switch n = max(n, 1); {
		case digit:
			r.spare = append(r.spare, '#')
		default:
			r.spare = append(r.spare, said[:n]...)
		}
		said = said[n:]
	}
	return Sum('f', r.spare), Sum('f', firstLine(r.spare))
}

// firstLine returns the beginning of the first line of a failure that says more than that it is one, or all of it.
func firstLine(text []byte) []byte {
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	if len(line) < leastLine {
		line, _, _ = bytes.Cut(rest, []byte("\n"))
	}
	line = bytes.TrimSpace(line[:min(len(line), mostLine)])
	if len(line) < leastLine || line[len(line)-1] == ':' { // such as the one above a traceback
		return text
	}
	return line
}
