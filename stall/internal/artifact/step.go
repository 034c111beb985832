package artifact

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrInvalidStep is wrapped by what [CheckStep] and [Open] return for a step that cannot name a folder, or not the same one on every system.
var ErrInvalidStep = errors.New("invalid step")

// The lengths of a step's name: in characters, which is ours, and in bytes, which is that of file systems.
const (
	MaxStep      = 100
	maxStepBytes = 255
)

// CheckStep says whether a step's name is one path element that stays where it is put, on this system and on others: 1 to 100 characters and at most 255 bytes
// of UTF-8, no slash, backslash, colon or control character, no blank around it and no dot at its end, neither [Folder] nor a device of Windows such as NUL.
func CheckStep(step string) error {
	if flaw := stepFlaw(step); flaw != "" {
		return fmt.Errorf("%w: %s; use a plain name, such as build or check-2", ErrInvalidStep, flaw)
	}
	return nil
}

func stepFlaw(step string) string {
	n := utf8.RuneCountInString(step)
	switch {
	case step == "":
		return "it is empty"
	case n > MaxStep:
		return fmt.Sprintf("%q… has %d characters, at most %d fit", string([]rune(step)[:24]), n, MaxStep)
	case len(step) > maxStepBytes:
		return fmt.Sprintf("%q… has %d bytes, at most %d fit", string([]rune(step)[:24]), len(step), maxStepBytes)
	case !utf8.ValidString(step):
		return fmt.Sprintf("%q is not valid UTF-8", step)
	case strings.ContainsAny(step, `/\:`):
		return fmt.Sprintf("%q has a slash, a backslash or a colon", step)
	case strings.ContainsFunc(step, unicode.IsControl):
		return fmt.Sprintf("%q has a control character", step)
	case strings.TrimSpace(step) != step:
		return fmt.Sprintf("%q has a blank at its beginning or end", step)
	}
	return nameFlaw(step)
}

// nameFlaw looks for names that file systems read as others.
func nameFlaw(step string) string {
	switch {
	case strings.HasSuffix(step, "."):
		return fmt.Sprintf("%q ends with a dot", step)
	case strings.EqualFold(step, Folder): // some file systems do not tell the cases apart
		return fmt.Sprintf("%q is the name of the folder in a step's own", step)
	case isDevice(step), !filepath.IsLocal(step):
		return fmt.Sprintf("%q is a device or a path on some systems", step)
	}
	return ""
}

// isDevice tells the names that are devices of Windows, in any folder and with any extension.
func isDevice(step string) bool {
	base, _, _ := strings.Cut(step, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	port, numbered := strings.CutPrefix(base, "COM")
	if !numbered {
		port, numbered = strings.CutPrefix(base, "LPT")
	}
	return numbered && utf8.RuneCountInString(port) == 1 && strings.Contains("0123456789¹²³", port)
}
