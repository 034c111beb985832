package alike

import (
	"encoding/binary"
	"math/bits"
)

// Mix returns the digest of two digests. 64 bits tell some hundred pairs apart, and nobody gains by two that are the
// same: who wants that can do the same. SHA-256 takes five times as long as all else.
func Mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd6e8feb86659fd93)
	return high ^ low
}

// Sum returns the digest of a text that comes after what has the first one.
func Sum(first uint64, text []byte) uint64 {
	n := uint64(len(text))
	for len(text) >= 16 {
		first = Mix(first^binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[8:]))
		text = text[16:]
	}
	var rest [16]byte
	copy(rest[:], text)
	return Mix(Mix(first^binary.LittleEndian.Uint64(rest[:]), binary.LittleEndian.Uint64(rest[8:])), n)
}

// anyBlurred reports whether one of eight bytes can be of what is blurred: from the dash to the nine.
func anyBlurred(eight uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	low := eight &^ high
	return (low+each*(0x80-'-'))&^(low+each*(0x80-':'))&^eight&high != 0
}

// areText reports whether each of eight bytes means itself in a JSON string. To say no of some that do is no mistake.
func areText(eight uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	quote, escape := eight^each*'"', eight^each*'\\'
	return ((eight-each*' ')&^eight|(quote-each)&^quote|(escape-each)&^escape)&high == 0
}
