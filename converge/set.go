package converge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
)

// The largest result of an iteration.
const (
	MaxFingerprint  = 200  // bytes of one
	MaxFingerprints = 1000 // of one iteration
)

// normalise checks the fingerprints of an iteration and returns them sorted, without duplicates.
func normalise(fingerprints []string) ([]string, error) {
	if len(fingerprints) > MaxFingerprints {
		return nil, fmt.Errorf("%w fingerprint: there are %d; an iteration ends with at most %d",
			watchdog.ErrInvalid, len(fingerprints), MaxFingerprints)
	}
	for i, fingerprint := range fingerprints {
		if flaw := fingerprintFlaw(fingerprint); flaw != "" {
			return nil, fmt.Errorf("%w fingerprint: number %d of %d %s", watchdog.ErrInvalid, i+1, len(fingerprints), flaw)
		}
	}
	set := slices.Clone(fingerprints)
	slices.Sort(set)
	return slices.Compact(set), nil
}

// fingerprintFlaw does not quote the fingerprint, because an invalid one can be any text.
func fingerprintFlaw(fingerprint string) string {
	switch at := strings.IndexFunc(fingerprint, notAllowed); {
	case fingerprint == "":
		return "is empty"
	case len(fingerprint) > MaxFingerprint:
		return fmt.Sprintf("has %d bytes; use at most %d", len(fingerprint), MaxFingerprint)
	case at >= 0:
		return fmt.Sprintf("has a character at byte %d that none may have; use letters, digits and ._:/@=+-", at)
	}
	return ""
}

func notAllowed(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._:/@=+-", r)
}

// compare returns what only the newer set has, what only the older set has, and what both have.
func compare(older, newer []string) (added, gone, same []string) {
	for _, fingerprint := range newer {
		if _, found := slices.BinarySearch(older, fingerprint); found {
			same = append(same, fingerprint)
		} else {
			added = append(added, fingerprint)
		}
	}
	for _, fingerprint := range older {
		if _, found := slices.BinarySearch(newer, fingerprint); !found {
			gone = append(gone, fingerprint)
		}
	}
	return added, gone, same
}
