package usage

import "bytes"

// findUsage returns where the first object can begin that is a usage, or somewhere before it in its event; the length
// if there is none. It looks at each brace, and where those are dense, as in short deltas, at each g instead: looking
// for one byte is a hundred times faster than looking at each.
func findUsage(p []byte) int {
	const stops, dense = 8, 128
	from := 0
	for stop := 1; ; stop++ {
		n := bytes.IndexByte(p[from:], '{')
		if n < 0 {
			return len(p)
		}
		if from += n; isUsage(p[:from]) {
			return from
		}
		if from++; stop%stops == 0 && from < stop*dense {
			return findUsageKey(p, from)
		}
	}
}

// isUsage reports whether the bytes before a brace can end with the key of a usage. One with an escape can.
func isUsage(p []byte) bool {
	i := lastToken(p, len(p))
	if i < 0 || p[i] != ':' {
		return false
	}
	if i = lastToken(p, i); i < 0 || p[i] != '"' {
		return false
	}
	for end := i; i > 0 && end-i <= longestText; {
		i--
		switch p[i] {
		case '\\':
			return i < end-1 // a quote after a backslash ends no key that matters
		case '"':
			key := p[i+1 : end]
			return string(key) == "usage" || string(key) == "usageMetadata"
		}
	}
	return false
}

// lastToken returns where the last byte before i is that is no space, or -1.
func lastToken(p []byte, i int) int {
	for i--; i >= 0 && isSpace(p[i]); i-- {
	}
	return i
}

// findUsageKey is findUsage from there on, by the key. It goes in steps, so that what is found near is found soon.
func findUsageKey(p []byte, from int) int {
	const step = 4 << 10
	for ; from < len(p); from += step {
		to := min(from+step, len(p))
		if at := min(findKey(p, from, to), findEscape(p, from, to)); at < to {
			return at
		}
	}
	return len(p)
}

// findKey returns where the first g is between the two that is in the key of an object that can be a usage, or to.
func findKey(p []byte, from, to int) int {
	for {
		n := bytes.IndexByte(p[from:to], 'g')
		if n < 0 {
			return to
		}
		if from += n; isKeyOfObject(p, from) {
			return from
		}
		from++
	}
}

func isKeyOfObject(p []byte, g int) bool {
	if g < 3 || string(p[g-3:g]) != "usa" {
		return false
	}
	rest, ok := bytes.CutPrefix(p[g+1:], []byte("e"))
	rest = bytes.TrimPrefix(rest, []byte("Metadata"))
	if !ok || len(rest) == 0 || rest[0] != '"' {
		return false
	}
	i := nextToken(rest, 1)
	if i == len(rest) || rest[i] != ':' {
		return false
	}
	i = nextToken(rest, i+1)
	return i < len(rest) && rest[i] == '{'
}

func nextToken(p []byte, i int) int {
	for i < len(p) && isSpace(p[i]) {
		i++
	}
	return i
}

// findEscape returns where the first escape of a letter is between the two, or to. Nobody writes letters so, but a key
// can be written so.
func findEscape(p []byte, from, to int) int {
	for {
		n := bytes.IndexByte(p[from:to], '\\')
		if n < 0 {
			return to
		}
		if from += n; isEscapedLetter(p[from+1:]) {
			return from
		}
		from++
	}
}

func isEscapedLetter(p []byte) bool {
	return len(p) > 3 && p[0] == 'u' && p[1] == '0' && p[2] == '0' && p[3] >= '4' && p[3] <= '7'
}
