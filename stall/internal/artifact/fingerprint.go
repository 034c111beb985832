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
	MaxFingerprint  = 200 // bytes in one fingerprint
	MaxFingerprints = 32  // fingerprints in one [Set]
	shortHash       = 12  // hexadecimal digits of a hash in a fingerprint
)

// The fingerprints of what the host sees itself.
const (
	NoOutputFingerprint         = "stall/no_output"
	NeverOutputFingerprint      = "stall/no_output:never" // there was no output at all
	StableNoProgressFingerprint = "stall/no-progress"     // whatever the state is
	WallClockFingerprint        = "stall/wall_clock"      // it was used up
	TerminalProbeFingerprint    = "stall/terminal:probe"  // a probe calls it so and gives no fingerprint of its own
)

// NoProgressFingerprint is for a probe's digest, a hash, that does not change: "stall/no_progress:" and the first 12
// digits of the digest.
func NoProgressFingerprint(digest string) string { return "stall/no_progress:" + digest[:shortHash] }

// PatternFingerprint is for the nth terminal pattern, from 1: "stall/terminal:pattern-1".
func PatternFingerprint(n int) string { return "stall/terminal:pattern-" + strconv.Itoa(n) }

// BlindFingerprint is for probes that could not observe: "stall/probe_blind:timeout".
func BlindFingerprint(why string) string { return Fingerprint("", "stall/probe_blind:"+why) }

// Fingerprint returns a valid fingerprint for a text. If prefix is not empty, the prefix and a slash come first. A text
// that is valid stays as it is. In any other text, characters that are not allowed become "_", the text is cut to the
// longest length, and a hash is added at the end, so that two texts do not get the same fingerprint.
func Fingerprint(prefix, text string) string {
	if prefix != "" {
		text = prefix + "/" + text
	}
	if ValidFingerprint(text) {
		return text
	}
	clean := strings.Map(func(r rune) rune {
		if allowed(r) {
			return r
		}
		return '_'
	}, text)
	return clean[:min(len(clean), MaxFingerprint-1-shortHash)] + "-" + hash(text)[:shortHash]
}

// ValidFingerprint reports whether a text is a fingerprint: 1 to 200 of the characters A-Z, a-z, 0-9 and ._:/@=+-.
func ValidFingerprint(s string) bool {
	return s != "" && len(s) <= MaxFingerprint && !strings.ContainsFunc(s, func(r rune) bool { return !allowed(r) })
}

// allowed reports whether a fingerprint may contain the character.
func allowed(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._:/@=+-", r)
}

// Set returns the normal form of a set of fingerprints: made valid by [Fingerprint], sorted, without duplicates, and
// only the first 32. Two sets are the same if their normal forms are equal. The result is never nil, and the argument
// is not changed.
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
