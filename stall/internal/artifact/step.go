package artifact

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrInvalidStep is for a step that cannot name a folder, or would not name the same folder on every system.
// [CheckStep] wraps it.
var ErrInvalidStep = errors.New("invalid step")

// The longest name of a step.
const (
	MaxStep      = 100 // characters
	maxStepBytes = 255 // the limit of most file systems
)

// CheckStep checks that a step's name is one path element that means the same on every operating system. It has 1 to
// 100 characters and at most 255 bytes of UTF-8. It has no slash, backslash, colon or control character, no space at
// either end and no dot at its end. It is neither [Folder] nor a Windows device such as NUL.
func CheckStep(step string) error {
	if problem := stepProblem(step); problem != "" {
		return fmt.Errorf("%w: %s; use a plain name, such as build or check-2", ErrInvalidStep, problem)
	}
	return nil
}

func stepProblem(step string) string {
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
		return fmt.Sprintf("%q begins or ends with a space", step)
	}
	return nameProblem(step)
}

// nameProblem finds names that have another meaning on some file systems.
func nameProblem(step string) string {
	switch {
	case strings.HasSuffix(step, "."):
		return fmt.Sprintf("%q ends with a dot", step)
	case strings.EqualFold(step, Folder): // some file systems ignore the case
		return fmt.Sprintf("%q is the name of the folder that a step's folder contains", step)
	case isDevice(step), !filepath.IsLocal(step):
		return fmt.Sprintf("%q is a device or a path on some systems", step)
	}
	return ""
}

// isDevice reports whether a name is a device on Windows, in any folder and with any extension.
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
