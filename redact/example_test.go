package redact_test

import (
	"fmt"

	"github.com/seed62658d38/watchdog/redact"
)

// The host redacts the end of a command's output before it keeps it, and names a value that it knows to be secret.
func Example() {
	redactor, err := redact.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	redactor, err = redactor.Also("s3cret of this deployment") // os.Getenv("DEPLOY_SECRET")
	if err != nil {
		fmt.Println(err)
		return
	}
	token := "gh" + "p_" + "0aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ"
	output := "remote: token " + token + " was refused\nlogin with s3cret of this deployment failed\n"
	fmt.Print(string(redactor.Bytes([]byte(output))))
	// Output:
	// remote: token [REDACTED:github-pat] was refused
	// login with [REDACTED:named] failed
}
