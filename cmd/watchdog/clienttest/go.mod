// The tests of the meter with real clients of model APIs. Nobody imports this module, so that it is not a part of
// go.work or of a release; .ci/run runs it by itself.
module github.com/seed62658d38/watchdog/cmd/watchdog/clienttest

go 1.25.0

require github.com/stretchr/testify v1.12.1

require go.yaml.in/yaml/v3 v3.0.5 // indirect
