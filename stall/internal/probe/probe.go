// Package probe reads what a probe of the stall sentinel printed: one JSON object, of which it makes an observation with a digest.
//
// [Capture] takes a probe's output, [Parse] reads it, and [Read] turns how a probe's run ended into an observation or into the way
// in which the probe was blind.
//
// # The digest
//
// An observation always has one. Where the probe gave a text of its own as "digest" it stands for that text alone; elsewhere for the canonical form of the whole
// object, so that it sees a change at any depth, and none in the order of keys, in white space or in how a value is spelled:
//
//   - A string is its characters: "\u0041" is "A".
//   - A number is its exact value: 1, 1.0 and 10e-1 are one number, 0 and -0 too, and none is rounded, however long.
//   - An array keeps its order. A key with the value null is not a key that is missing.
//
// What a probe calls its digest never equals what is computed of an object: the two are hashed apart.
//
// # Secrets
//
// No error of this package holds any part of what a probe printed or of the command that it is: they say what was wrong, and at which byte, field or index.
//
// The package runs nothing and keeps no time. What a series of observations means is decided in internal/verdict.
package probe

import (
	"errors"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// The bounds of what a probe may print.
const (
	MaxOutput       = 64 << 10 // bytes, white space included
	MaxDepth        = 64       // objects and arrays in each other, the object itself counted
	MaxFingerprints = 32
	MaxFingerprint  = 200 // bytes
	MaxReasons      = 16
	MaxReason       = 200 // characters
)

// What is wrong with an output. All of them are returned by [Parse], and by [Read] as the reason of [BlindOutput].
var (
	// ErrTooLong is returned for more than MaxOutput bytes.
	ErrTooLong = errors.New("the probe printed more than 64 KiB: have it print a digest of its state instead")
	// ErrNotText is returned for bytes that are not UTF-8 and for an escape that is half a character: two of them could not be told apart.
	ErrNotText = errors.New("the probe printed bytes or escapes that are not Unicode text")
	// ErrNotObject is returned for anything but exactly one JSON object.
	ErrNotObject = errors.New("the probe did not print exactly one JSON object")
	// ErrTooDeep is returned for objects and arrays nested more than MaxDepth deep.
	ErrTooDeep = errors.New("the probe nested values more than 64 deep")
	// ErrDuplicateKey is returned for a key that one object, at any depth, has twice: which value counts is anybody's guess.
	ErrDuplicateKey = errors.New("the probe printed an object that has a key twice")
	// ErrField is returned for a known field with a value that it cannot have.
	ErrField = errors.New("the probe printed a field with a wrong value")
)

// An Observation is what a probe saw.
type Observation struct {
	// Class is what the probe says of the state, and empty where it says nothing.
	Class verdict.Class
	// Digest is 64 hexadecimal digits, equal for equal states.
	Digest string
	// Fingerprints are short names of what is wrong, from [A-Za-z0-9._:/@=+-], as the probe ordered them.
	Fingerprints []string
	// Reasons and Summary are for people and may hold anything, secrets and control characters too.
	Reasons []string
	Summary string
}

// Parse reads what a probe printed. The known fields are class, digest, summary (strings), fingerprints and reasons (arrays of strings);
// each may be missing, null or empty, which is the same. Their names are exact. Other keys are only part of the digest.
// Its errors are those of this package.
func Parse(output []byte) (Observation, error) {
	if len(output) > MaxOutput {
		return Observation{}, ErrTooLong
	}
	object, err := decode(output)
	if err != nil {
		return Observation{}, err
	}
	f := fields{object: object}
	o := Observation{
		Class:        f.class(),
		Fingerprints: f.list("fingerprints", MaxFingerprints, wrongFingerprint),
		Reasons:      f.list("reasons", MaxReasons, wrongReason),
		Summary:      f.text("summary"),
	}
	given := f.text("digest")
	if f.err != nil {
		return Observation{}, f.err
	}
	o.Digest = digestOf(object, given)
	return o, nil
}
