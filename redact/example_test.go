package redact_test

import (
	"fmt"

	"github.com/seed62658d38/watchdog/redact"
)

// The end of a command's output is redacted before it is kept; the value of a variable that the host knows to be secret is named.
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
