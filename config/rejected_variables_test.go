package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
)

func TestRejectedVariables(t *testing.T) {
	const wallClock, warnAt = "WATCHDOG_SESSION_WALL_CLOCK_SECONDS", "WATCHDOG_WARN_AT"
	var all strings.Builder
	for _, test := range []struct{ sentence, variable, text, value string }{
		{"a space before the number", wallClock, " 5", `" 5"`},
		{"a line end after the number", wallClock, "5\n", `"5\n"`},
		{"a Go duration", wallClock, "5s", `"5s"`},
		{"a boolean", wallClock, "true", `"true"`},
		{"a plus", wallClock, "+5", `"+5"`},
		{"a negative number", wallClock, "-5", `"-5"`},
		{"an exponent", wallClock, "1e3", `"1e3"`},
		{"a hexadecimal number", wallClock, "0x10", `"0x10"`},
		{"a leading zero", wallClock, "010", `"010"`},
		{"an underscore", wallClock, "1_000", `"1_000"`},
		{"a thousands separator", wallClock, "1,000", `"1,000"`},
		{"a quoted number", wallClock, `"5"`, `"\"5\""`},
		{"null", wallClock, "null", `"null"`},
		{"infinity", wallClock, "inf", `"inf"`},
		{"longer than a duration", wallClock, "9223372037", `"9223372037"`},
		{"not UTF-8", wallClock, "5\xff", `"5\xff"`},
		{"too long to repeat", wallClock, strings.Repeat("x", 100), `"` + strings.Repeat("x", 60) + `…"`},
		{"a list as in a file", warnAt, "[0.5]", `"[0.5]"`},
		{"a space in a list", warnAt, "0.5, 0.8", `" 0.8"`},
		{"a comma too many", warnAt, "0.5,", `""`},
		{"a fraction of 80", warnAt, "0.5,80", `"80"`},
		{"zero among fractions", warnAt, "0,0.5", `"0"`},
		{"a flag of a number", "WATCHDOG_FROM_FIRST_SIGN", "1", `"1"`},
		{"zero for a ladder", "WATCHDOG_LADDERS_HOLD", "0", `"0"`},
		{"a ladder as in a file", "WATCHDOG_LADDERS_HOLD", "[retry]", `"[retry]"`},
		{"a space in a ladder", "WATCHDOG_LADDERS_HOLD", "wait, retry", `" retry"`},
		{"a ladder that goes on after a cancel", "WATCHDOG_LADDERS_HOLD", "cancel,retry", `"retry"`},
		{
			"more than 100 rungs", "WATCHDOG_LADDERS_HOLD", strings.Repeat("wait,", 100) + "wait",
			`"` + strings.Repeat("wait,", 12) + `…"`,
		},
		{"money without a currency", costVariable, "5", `"5"`},
		{"negative money", costVariable, "-5 EUR", `"-5 EUR"`},
		{"two spaces in money", costVariable, "5  EUR", `"5  EUR"`},
		{"a tool without a number", toolsVariable, "bash=5,search", `"search"`},
		{"a tool with a negative number", toolsVariable, "bash=-5", `"bash": "-5"`},
		{"tools as in a file", toolsVariable, "{bash: 5}", `"{bash: 5}"`},
		{"a tool without a name", toolsVariable, "=5", `"": "5"`},
		{"a comma too many after tools", toolsVariable, "bash=5,", `""`},
		{"a negative count", "WATCHDOG_SPEND_TURNS", "-1", `"-1"`},
		{"a mode that is none", "WATCHDOG_LOOP_MODE", "true", `"true"`},
		{"a class that is none", "WATCHDOG_LOOP_CLASSES", "deploy=write", `"deploy": "write"`},
		{"a tool without a class", "WATCHDOG_LOOP_CLASSES", "deploy", `"deploy"`},
		{"waits that are counted", "WATCHDOG_LOOP_WAITS", "20", `"20"`},
		{"a space in a list of fields", "WATCHDOG_LOOP_VOLATILE", "a, b", `" b"`},
		{"zero among fields twice", "WATCHDOG_LOOP_VOLATILE", "0,0", `"0"`},
		{"a comma too many after fields", "WATCHDOG_LOOP_VOLATILE", "a,", `""`},
		{"a mistyped class", "WATCHDOG_EVENTS_UNKNOWN", "Activity", `"Activity"`},
		{"a tick longer than the longest", "WATCHDOG_MAX_TICK_DURATION_MINUTES", "61", `"61"`},
		{"a grace of zero", "WATCHDOG_TICK_GRACE_SECONDS", "0.0", `"0.0"`},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Load("", environment(map[string]string{test.variable: test.text}))
			require.Nil(t, c)
			fault := only(t, err)
			require.Equal(t, test.variable, fault.Variable)
			require.Equal(t, test.value, fault.Value)
			require.Empty(t, fault.File)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_variables.golden", all.String())
}
