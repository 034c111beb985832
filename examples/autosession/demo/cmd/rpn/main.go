// Command rpn prints the value of the expression in its arguments: rpn 3 4 + 2 '*'.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/seed62658d38/watchdog/examples/autosession/demo/rpn"
)

func main() {
	value, err := rpn.Eval(strings.Join(os.Args[1:], " "))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(value)
}
