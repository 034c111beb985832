package record

import "strings"

// codePrefix begins the stop codes of the guards. Payloads leave it out.
const codePrefix = "watchdog_"

// Reason returns a stop code as payloads name it: "idle_timeout" for "watchdog_idle_timeout". It leaves a host's own
// code unchanged.
func Reason(code string) string { return strings.TrimPrefix(code, codePrefix) }
