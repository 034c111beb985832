package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// The bounds of fingerprints.
const (
	MaxFingerprint  = 200 // bytes of one
	MaxFingerprints = 32  // of one [Set]
	shortHash       = 12  // hexadecimal digits of a hash in one
)

// The fingerprints of a silent command.
const (
	NoOutputFingerprint    = "stall/no_output"
	NeverOutputFingerprint = "stall/no_output:never" // there was no output at all
)

// TerminalProbeFingerprint is that of a probe that says that a state is terminal and not which.
const TerminalProbeFingerprint = "stall/terminal:probe"

// NoProgressFingerprint is that of a probe's digest that does not change: "stall/no_progress:" and the first 12 digits of the hash. What is no hash is
// hashed.
func NoProgressFingerprint(digest string) string {
	if !isHash(digest) {
		digest = hash(digest)
	}
	return "stall/no_progress:" + digest[:shortHash]
}

// PatternFingerprint is that of the nth terminal pattern, from 1: "stall/terminal:pattern-1".
func PatternFingerprint(n int) string { return "stall/terminal:pattern-" + strconv.Itoa(n) }

// BlindFingerprint is that of probes that could not observe: "stall/probe_blind:timeout".
func BlindFingerprint(why string) string { return Fingerprint("", "stall/probe_blind:"+why) }

// Fingerprint is a valid fingerprint of a text, after a prefix and a slash where there is a prefix. One that is valid stays as it is. In another every
// character that may not be there becomes "_", it is cut to its length, and a hash is added at the end, which keeps two such texts apart.
func Fingerprint(prefix, text string) string {
	if prefix != "" {
		text = prefix + "/" + text
	}
	if ValidFingerprint(text) {
		return text
	}
	clean := strings.Map(func(r rune) rune {
		if isFingerprint(r) {
			return r
		}
		return '_'
	}, text)
	return clean[:min(len(clean), MaxFingerprint-1-shortHash)] + "-" + hash(text)[:shortHash]
}

// ValidFingerprint says whether a text can be compared as a fingerprint: 1 to 200 of the characters A-Z, a-z, 0-9 and ._:/@=+-.
func ValidFingerprint(s string) bool {
	return s != "" && len(s) <= MaxFingerprint && !strings.ContainsFunc(s, func(r rune) bool { return !isFingerprint(r) })
}

func isFingerprint(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._:/@=+-", r)
}

// Set is the normal form of fingerprints: valid ones, made so by [Fingerprint], sorted, each once, the first 32 of them; never nil. Two sets are the same if these
// are. What it is given stays as it is.
func Set(fingerprints []string) []string {
	set := make([]string, 0, len(fingerprints))
	for _, text := range fingerprints {
		set = append(set, Fingerprint("", text))
	}
	slices.Sort(set)
	set = slices.Compact(set)
	return set[:min(len(set), MaxFingerprints)]
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
