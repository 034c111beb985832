-- Written by the code of commit d1964cec06 (runs, sessions, notices and charges), and then moved to the year 2025.
-- See store/internal/beforetest, which tests what the code of now makes of it.
CREATE TABLE events (
	id VARCHAR(36) NOT NULL PRIMARY KEY,
	aggregate_type VARCHAR(100) NOT NULL,
	aggregate_id VARCHAR(255) NOT NULL,
	event_type VARCHAR(200) NOT NULL,
	payload JSON NOT NULL,
	"timestamp" TEXT NOT NULL,
	consensus_id VARCHAR(36)
);
CREATE TABLE watchdog_leases (
	id VARCHAR(255) NOT NULL PRIMARY KEY,
	host TEXT NOT NULL DEFAULT '',
	promise INTEGER NOT NULL,
	beat INTEGER NOT NULL,
	clock INTEGER NOT NULL,
	vouched INTEGER NOT NULL,
	covered INTEGER NOT NULL DEFAULT 0,
	behind TEXT,
	renewed_at TEXT NOT NULL,
	looks INTEGER NOT NULL DEFAULT 0,
	expired TEXT,
	epoch INTEGER GENERATED ALWAYS AS ((CASE
			WHEN renewed_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]' THEN NULL
			WHEN strftime('%Y-%m-%d %H:%M:%S', substr(renewed_at, 1, 19)) = substr(renewed_at, 1, 19)
			THEN CAST(strftime('%s', substr(renewed_at, 1, 19)) AS INTEGER) * 1000000 + CAST(substr(renewed_at, 21) AS INTEGER) END) * 1000 - clock) VIRTUAL
);
CREATE TABLE watchdog_sessions (
	run_id VARCHAR(255) NOT NULL PRIMARY KEY,
	parent VARCHAR(255) NOT NULL DEFAULT '',
	status VARCHAR(20) NOT NULL,
	created_at TEXT NOT NULL,
	last_event_at TEXT,
	threshold INTEGER NOT NULL DEFAULT 0,
	started_at TEXT NOT NULL,
	host TEXT NOT NULL DEFAULT '',
	attempt INTEGER NOT NULL,
	resumes INTEGER NOT NULL DEFAULT 0,
	reason TEXT NOT NULL DEFAULT '',
	lease TEXT,
	activity INTEGER,
	quiet_since INTEGER,
	quiet_due INTEGER,
	allowance INTEGER,
	state TEXT,
	claim TEXT,
	claimed_until TEXT,
	warned_at TEXT,
	warned_lease TEXT,
	warned_beat INTEGER,
	warned_last_event TEXT,
	stop_failed INTEGER,
	expired_lease TEXT,
	lost INTEGER,
	start_key TEXT,
	start_tries INTEGER,
	start_due INTEGER,
	ended INTEGER,
	created INTEGER GENERATED ALWAYS AS (CASE
			WHEN created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]' THEN NULL
			WHEN strftime('%Y-%m-%d %H:%M:%S', substr(created_at, 1, 19)) = substr(created_at, 1, 19)
			THEN CAST(strftime('%s', substr(created_at, 1, 19)) AS INTEGER) * 1000000 + CAST(substr(created_at, 21) AS INTEGER) END) VIRTUAL,
	silent INTEGER GENERATED ALWAYS AS (CASE
			WHEN coalesce(last_event_at, created_at) NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]' THEN NULL
			WHEN strftime('%Y-%m-%d %H:%M:%S', substr(coalesce(last_event_at, created_at), 1, 19)) = substr(coalesce(last_event_at, created_at), 1, 19)
			THEN CAST(strftime('%s', substr(coalesce(last_event_at, created_at), 1, 19)) AS INTEGER) * 1000000 + CAST(substr(coalesce(last_event_at, created_at), 21) AS INTEGER) END) VIRTUAL,
	due INTEGER GENERATED ALWAYS AS (silent + threshold / 1000) VIRTUAL
) WITHOUT ROWID;
CREATE TABLE watchdog_lease_ends (
	lease TEXT NOT NULL,
	run_id VARCHAR(255) NOT NULL,
	attempt INTEGER NOT NULL,
	PRIMARY KEY (lease, run_id, attempt)
) WITHOUT ROWID;
CREATE TABLE watchdog_outbox (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	event_id VARCHAR(36) NOT NULL,
	aggregate_type VARCHAR(100) NOT NULL,
	aggregate_id VARCHAR(255) NOT NULL,
	event_type VARCHAR(200) NOT NULL,
	created_at TEXT NOT NULL,
	due_at TEXT NOT NULL DEFAULT '',
	tries INTEGER NOT NULL DEFAULT 0,
	paused_at TEXT NOT NULL DEFAULT '',
	waited INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE watchdog_spend (
	scope VARCHAR(255) NOT NULL,
	window_name VARCHAR(64) NOT NULL,
	currency VARCHAR(16) NOT NULL DEFAULT '',
	ends_at TEXT,
	input_tokens INTEGER NOT NULL DEFAULT 0,
	output_tokens INTEGER NOT NULL DEFAULT 0,
	tokens INTEGER NOT NULL DEFAULT 0,
	cost INTEGER NOT NULL DEFAULT 0,
	requests INTEGER NOT NULL DEFAULT 0,
	turns INTEGER NOT NULL DEFAULT 0,
	tool_calls INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (scope, window_name)
) WITHOUT ROWID;
CREATE TABLE watchdog_slices (
	id VARCHAR(36) NOT NULL PRIMARY KEY,
	scope VARCHAR(255) NOT NULL,
	window_name VARCHAR(64) NOT NULL,
	taken_at TEXT NOT NULL,
	host TEXT NOT NULL DEFAULT '',
	pid INTEGER NOT NULL DEFAULT 0,
	granted_input_tokens INTEGER NOT NULL,
	granted_output_tokens INTEGER NOT NULL,
	granted_tokens INTEGER NOT NULL,
	granted_cost INTEGER NOT NULL,
	granted_requests INTEGER NOT NULL,
	granted_turns INTEGER NOT NULL,
	granted_tool_calls INTEGER NOT NULL,
	returned_at TEXT,
	returned_input_tokens INTEGER NOT NULL DEFAULT 0,
	returned_output_tokens INTEGER NOT NULL DEFAULT 0,
	returned_tokens INTEGER NOT NULL DEFAULT 0,
	returned_cost INTEGER NOT NULL DEFAULT 0,
	returned_requests INTEGER NOT NULL DEFAULT 0,
	returned_turns INTEGER NOT NULL DEFAULT 0,
	returned_tool_calls INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE watchdog_schema (version integer PRIMARY KEY, oldest_reader integer NOT NULL);

INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp, consensus_id) VALUES
	('49398cb6-f47d-5ee2-a27f-4b9d76fa4706', 'runtime_control', 'continued', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:00.000000Z","format":1,"event_version":1}', '2025-11-28 12:00:00.000000', NULL),
	('2fed6a7c-ac00-4b54-9a78-351571ffdd5b', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-0","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:00:00.000000Z","opened_seconds":0,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:00:00.000000', NULL),
	('508e5e79-09e5-55ec-a9f1-af7880e4a272', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-0","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:01:00.000000Z","released_seconds":60,"opening":"2fed6a7c-ac00-4b54-9a78-351571ffdd5b","event_version":1}', '2025-11-28 12:01:00.000000', NULL),
	('fc48cc9d-9d21-42d5-883d-caba571811f1', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-1","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:01:01.000000Z","opened_seconds":61,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:01:01.000000', NULL),
	('e2e118d4-00a8-52ba-a472-41a80383c146', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-1","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:02:01.000000Z","released_seconds":121,"opening":"fc48cc9d-9d21-42d5-883d-caba571811f1","event_version":1}', '2025-11-28 12:02:01.000000', NULL),
	('b8d8431a-0430-4486-bb88-70d4ed006538', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-2","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:02:02.000000Z","opened_seconds":122,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:02:02.000000', NULL),
	('6e5bcfc2-c2dc-522c-b4fc-8d97a340ebc3', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-2","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:03:02.000000Z","released_seconds":182,"opening":"b8d8431a-0430-4486-bb88-70d4ed006538","event_version":1}', '2025-11-28 12:03:02.000000', NULL),
	('70babef3-2aa7-4534-890e-196aae6d8d3c', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-3","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:03:03.000000Z","opened_seconds":183,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:03:03.000000', NULL),
	('111f41e3-a106-587a-b3a2-d2352529535d', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-3","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:04:03.000000Z","released_seconds":243,"opening":"70babef3-2aa7-4534-890e-196aae6d8d3c","event_version":1}', '2025-11-28 12:04:03.000000', NULL),
	('92394f66-fc93-4856-8a77-9d46daecaa01', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-4","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:04:04.000000Z","opened_seconds":244,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:04:04.000000', NULL),
	('b9aeb84c-032e-58b2-8d1c-c9a22f405638', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-4","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:05:04.000000Z","released_seconds":304,"opening":"92394f66-fc93-4856-8a77-9d46daecaa01","event_version":1}', '2025-11-28 12:05:04.000000', NULL),
	('fafe3a1c-a687-4724-8ddc-24ffa2ce1e49', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-5","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:05:05.000000Z","opened_seconds":305,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:05:05.000000', NULL),
	('91504a63-f482-5afb-9d36-5c1afe0467de', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-5","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:06:05.000000Z","released_seconds":365,"opening":"fafe3a1c-a687-4724-8ddc-24ffa2ce1e49","event_version":1}', '2025-11-28 12:06:05.000000', NULL),
	('d1742c10-ce56-4c6a-ae0c-4a12199dc109', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-6","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:06:06.000000Z","opened_seconds":366,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:06:06.000000', NULL),
	('193589d9-2d15-5f35-ba99-7b5caa193ce5', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-6","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:07:06.000000Z","released_seconds":426,"opening":"d1742c10-ce56-4c6a-ae0c-4a12199dc109","event_version":1}', '2025-11-28 12:07:06.000000', NULL),
	('b3898c53-82b4-4171-a66d-ba4b388ab533', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-7","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:07:07.000000Z","opened_seconds":427,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:07:07.000000', NULL),
	('10cc464c-7ea5-5fe6-8a46-9c6999339712', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-7","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:08:07.000000Z","released_seconds":487,"opening":"b3898c53-82b4-4171-a66d-ba4b388ab533","event_version":1}', '2025-11-28 12:08:07.000000', NULL),
	('49949bdc-157d-486c-80b8-8af43332c1f7', 'runtime_control', 'eventful', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:08:07.000000Z","format":1,"from":"2025-11-28T11:00:00.000000Z","since":"2025-11-28T11:07:07.000001Z","until":"2025-11-28T12:07:07.000002Z","known":16,"settled":{},"folded":{"windows":[{"session_started_at":"2025-11-28T12:00:00.000000Z","pauses":[{"id":"2fed6a7c-ac00-4b54-9a78-351571ffdd5b","hold":"person-0","opened":true,"cap_seconds":3600,"released":true,"released_seconds":60},{"id":"70babef3-2aa7-4534-890e-196aae6d8d3c","hold":"person-3","opened":true,"opened_seconds":183,"cap_seconds":3600,"released":true,"released_seconds":243},{"id":"92394f66-fc93-4856-8a77-9d46daecaa01","hold":"person-4","opened":true,"opened_seconds":244,"cap_seconds":3600,"released":true,"released_seconds":304},{"id":"b3898c53-82b4-4171-a66d-ba4b388ab533","hold":"person-7","opened":true,"opened_seconds":427,"cap_seconds":3600},{"id":"b8d8431a-0430-4486-bb88-70d4ed006538","hold":"person-2","opened":true,"opened_seconds":122,"cap_seconds":3600,"released":true,"released_seconds":182},{"id":"d1742c10-ce56-4c6a-ae0c-4a12199dc109","hold":"person-6","opened":true,"opened_seconds":366,"cap_seconds":3600,"released":true,"released_seconds":426},{"id":"fafe3a1c-a687-4724-8ddc-24ffa2ce1e49","hold":"person-5","opened":true,"opened_seconds":305,"cap_seconds":3600,"released":true,"released_seconds":365},{"id":"fc48cc9d-9d21-42d5-883d-caba571811f1","hold":"person-1","opened":true,"opened_seconds":61,"cap_seconds":3600,"released":true,"released_seconds":121}]}]},"event_version":1}', '2025-11-28 12:07:07.000001', NULL),
	('75ce9877-b71f-45aa-92ad-88e4954c360f', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-8","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:08:08.000000Z","opened_seconds":488,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:08:08.000000', NULL),
	('7070bac8-e272-581f-b7c4-2336b9ac05d4', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-8","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:09:08.000000Z","released_seconds":548,"opening":"75ce9877-b71f-45aa-92ad-88e4954c360f","event_version":1}', '2025-11-28 12:09:08.000000', NULL),
	('55c1c239-4029-46fe-998b-d4b7d5b7f8fc', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-9","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:09:09.000000Z","opened_seconds":549,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:09:09.000000', NULL),
	('5dd00d65-eabe-5066-9d9b-7cde18670d61', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-9","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:10:09.000000Z","released_seconds":609,"opening":"55c1c239-4029-46fe-998b-d4b7d5b7f8fc","event_version":1}', '2025-11-28 12:10:09.000000', NULL),
	('f0a6bbf0-86db-4e24-a984-22ae8df907c6', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-10","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:10:10.000000Z","opened_seconds":610,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:10:10.000000', NULL),
	('ca79a034-b930-5505-9b14-a1b28dea59d2', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-10","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:11:10.000000Z","released_seconds":670,"opening":"f0a6bbf0-86db-4e24-a984-22ae8df907c6","event_version":1}', '2025-11-28 12:11:10.000000', NULL),
	('6656302c-e923-44c1-ba46-a3b9d94b87ed', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-11","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:11:11.000000Z","opened_seconds":671,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:11:11.000000', NULL),
	('c4147485-8a72-50e2-94b9-cdf6387b5470', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-11","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:12:11.000000Z","released_seconds":731,"opening":"6656302c-e923-44c1-ba46-a3b9d94b87ed","event_version":1}', '2025-11-28 12:12:11.000000', NULL),
	('4716b0c3-5340-5e1c-b841-b689b77b3ee9', 'runtime_control', 'continued-eventful', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:00.000000Z","format":1,"event_version":1}', '2025-11-28 12:00:00.000000', NULL),
	('d88505e5-d83e-4576-bb14-b5c1481ab26c', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:01:00.000000Z","elapsed_seconds":60,"extension_seconds":1,"configured_budget_seconds":14401,"event_version":1}', '2025-11-28 12:01:00.000000', NULL),
	('3d68f83f-807e-4625-8604-fd7bbaec4622', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:02:00.000000Z","elapsed_seconds":120,"extension_seconds":2,"configured_budget_seconds":14403,"event_version":1}', '2025-11-28 12:02:00.000000', NULL),
	('1b4d80d1-305b-4263-bcbd-1a7f7be39d98', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:03:00.000000Z","elapsed_seconds":180,"extension_seconds":3,"configured_budget_seconds":14406,"event_version":1}', '2025-11-28 12:03:00.000000', NULL),
	('7d181646-f7ca-4d01-91ef-6488f0f39994', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:04:00.000000Z","elapsed_seconds":240,"extension_seconds":4,"configured_budget_seconds":14410,"event_version":1}', '2025-11-28 12:04:00.000000', NULL),
	('fda7ea66-f2eb-42cb-a625-ca3159795e9e', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:05:00.000000Z","elapsed_seconds":300,"extension_seconds":5,"configured_budget_seconds":14415,"event_version":1}', '2025-11-28 12:05:00.000000', NULL),
	('8e9f5442-bf02-4205-a8a5-53ee243af086', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:06:00.000000Z","elapsed_seconds":360,"extension_seconds":6,"configured_budget_seconds":14421,"event_version":1}', '2025-11-28 12:06:00.000000', NULL),
	('de337a4d-eb83-4acf-8d1c-e148d7ff377c', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:07:00.000000Z","elapsed_seconds":420,"extension_seconds":7,"configured_budget_seconds":14428,"event_version":1}', '2025-11-28 12:07:00.000000', NULL),
	('b9951671-dd60-4e86-8548-8e027fb1f65f', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:08:00.000000Z","elapsed_seconds":480,"extension_seconds":8,"configured_budget_seconds":14436,"event_version":1}', '2025-11-28 12:08:00.000000', NULL),
	('1f5c099a-031b-41bc-9bb9-2f0c74783953', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:09:00.000000Z","elapsed_seconds":540,"extension_seconds":9,"configured_budget_seconds":14445,"event_version":1}', '2025-11-28 12:09:00.000000', NULL),
	('2a04453f-84b8-48ea-aa1b-6308aee14ecb', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:10:00.000000Z","elapsed_seconds":600,"extension_seconds":10,"configured_budget_seconds":14455,"event_version":1}', '2025-11-28 12:10:00.000000', NULL),
	('63c65c94-81f6-44ef-aa12-2e4347fe1ed5', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:11:00.000000Z","elapsed_seconds":660,"extension_seconds":11,"configured_budget_seconds":14466,"event_version":1}', '2025-11-28 12:11:00.000000', NULL),
	('8ecd1107-b224-42d8-a97a-a60653c0a224', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:12:00.000000Z","elapsed_seconds":720,"extension_seconds":12,"configured_budget_seconds":14478,"event_version":1}', '2025-11-28 12:12:00.000000', NULL),
	('4b21881f-b4fd-4865-8a0c-e691eb8bed90', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-0","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:12:00.000000Z","opened_seconds":720,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:12:00.000000', NULL),
	('de67677c-7d11-5c12-a1fc-ab9126222d3d', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-0","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:13:00.000000Z","released_seconds":780,"opening":"4b21881f-b4fd-4865-8a0c-e691eb8bed90","event_version":1}', '2025-11-28 12:13:00.000000', NULL),
	('a1a646eb-2aba-4a0f-ae9a-bfdbae1aa8da', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-1","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:13:00.000000Z","opened_seconds":780,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:13:00.000000', NULL),
	('b51f3e8b-e34c-5083-b9e9-42716f737f77', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-1","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:14:00.000000Z","released_seconds":840,"opening":"a1a646eb-2aba-4a0f-ae9a-bfdbae1aa8da","event_version":1}', '2025-11-28 12:14:00.000000', NULL),
	('10c57650-0f61-4211-bb43-0f76cd450d19', 'runtime_control', 'continued-eventful', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:14:00.000000Z","format":1,"from":"2025-11-28T11:00:00.000000Z","since":"2025-11-28T11:13:00.000001Z","until":"2025-11-28T12:13:00.000002Z","known":17,"settled":{},"folded":{"windows":[{"session_started_at":"2025-11-28T12:00:00.000000Z","extension_seconds":78,"pauses":[{"id":"4b21881f-b4fd-4865-8a0c-e691eb8bed90","hold":"person-0","opened":true,"opened_seconds":720,"cap_seconds":3600,"released":true,"released_seconds":780},{"id":"a1a646eb-2aba-4a0f-ae9a-bfdbae1aa8da","hold":"person-1","opened":true,"opened_seconds":780,"cap_seconds":3600}]}]},"event_version":1}', '2025-11-28 12:13:00.000001', NULL),
	('0b7e1a85-0714-4c85-b4ed-d840d205f8df', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-2","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:14:00.000000Z","opened_seconds":840,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:14:00.000000', NULL),
	('84d43fa7-7ba7-5b18-9210-d853eee2b14b', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-2","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:15:00.000000Z","released_seconds":900,"opening":"0b7e1a85-0714-4c85-b4ed-d840d205f8df","event_version":1}', '2025-11-28 12:15:00.000000', NULL),
	('e36d5097-f2e9-42cc-86ce-03cdf78c9ff2', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-3","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:15:00.000000Z","opened_seconds":900,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:15:00.000000', NULL),
	('03f037c8-ac99-5cae-9119-a0d766ef8b05', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-3","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:16:00.000000Z","released_seconds":960,"opening":"e36d5097-f2e9-42cc-86ce-03cdf78c9ff2","event_version":1}', '2025-11-28 12:16:00.000000', NULL),
	('af3ba2a1-f875-4f0b-8c8e-f12a514c46a5', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-4","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:16:00.000000Z","opened_seconds":960,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:16:00.000000', NULL),
	('8f17a6d9-c06a-5284-af93-932cb9b5cffd', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-4","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:17:00.000000Z","released_seconds":1020,"opening":"af3ba2a1-f875-4f0b-8c8e-f12a514c46a5","event_version":1}', '2025-11-28 12:17:00.000000', NULL),
	('bbcb6c3d-19cc-40d6-a481-a25fbea40181', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-5","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:17:00.000000Z","opened_seconds":1020,"cap_seconds":3600,"event_version":1}', '2025-11-28 12:17:00.000000', NULL),
	('484b3853-dd46-5a4a-ad88-1c24f38bbcd3', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-5","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:18:00.000000Z","released_seconds":1080,"opening":"bbcb6c3d-19cc-40d6-a481-a25fbea40181","event_version":1}', '2025-11-28 12:18:00.000000', NULL),
	('8d1cef24-368e-564a-bfe6-25c81f23609a', 'runtime_control', 'cancelled', 'runtime.watchdog.cancel', '{"reason":"wall_clock_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T16:00:01.000000Z","elapsed_seconds":14401,"configured_budget_seconds":14400,"note":"tool call","event_version":1}', '2025-11-28 16:00:01.000000', NULL),
	('9f0c91bd-f759-5fea-bbdf-26c8c61c72b6', 'runtime_control', 'layered/tool', 'runtime.watchdog.cancel', '{"reason":"wall_clock_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:02:00.000000Z","elapsed_seconds":120,"configured_budget_seconds":60,"parent":"layered","window":"5a7a7931-a1b3-4e75-8cb6-8f8942f48c0e","event_version":1}', '2025-11-28 12:02:00.000000', NULL),
	('eb339ea9-8017-5473-abd9-5fc7c1bf3741', 'runtime_control', 'completed', 'runtime.watchdog.complete', '{"reason":"complete","session_started_at":"2025-11-28T12:00:00.000000Z","completed_at":"2025-11-28T13:00:00.000000Z","elapsed_seconds":3600,"event_version":1}', '2025-11-28 13:00:00.000000', NULL),
	('d5f8babc-172f-5185-a8fd-86082ed31430', 'runtime_control', 'resumed', 'runtime.watchdog.cancel', '{"reason":"wall_clock_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T17:00:00.000000Z","elapsed_seconds":18000,"configured_budget_seconds":14400,"event_version":1}', '2025-11-28 17:00:00.000000', NULL),
	('46aaf114-cadb-5520-aa2d-7d351f3c5194', 'runtime_control', 'resumed', 'runtime.watchdog.resume', '{"session_started_at":"2025-11-28T18:00:00.000000Z","previous_started_at":"2025-11-28T12:00:00.000000Z","event_version":1}', '2025-11-28 18:00:00.000000', NULL),
	('ef2d0514-6aa3-4501-8048-7988be8a999c', 'runtime_control', 'held', 'runtime.watchdog.hold', '{"hold":"approval","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:01:00.000000Z","opened_seconds":60,"cap_seconds":7200,"event_version":1}', '2025-11-28 12:01:00.000000', NULL),
	('740f8d87-1390-4688-8ad5-ac835f533c37', 'runtime_control', 'released', 'runtime.watchdog.hold', '{"hold":"approval","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:00:00.000000Z","opened_seconds":0,"cap_seconds":7200,"event_version":1}', '2025-11-28 12:00:00.000000', NULL),
	('cc3696aa-f552-5b96-a3f1-1d52ae263b2d', 'runtime_control', 'released', 'runtime.watchdog.release', '{"hold":"approval","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:10:00.000000Z","released_seconds":600,"opening":"740f8d87-1390-4688-8ad5-ac835f533c37","event_version":1}', '2025-11-28 12:10:00.000000', NULL),
	('2d0ff4ba-2523-4214-86bf-34a0b042e518', 'runtime_control', 'extended', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:00:00.000000Z","elapsed_seconds":0,"extension_seconds":3600,"configured_budget_seconds":18000,"event_version":1}', '2025-11-28 12:00:00.000000', NULL),
	('197b0d10-9012-4674-a25e-da4241fdd6a0', 'runtime_control', 'laddered', 'runtime.watchdog.warning', '{"reason":"idle_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:31:00.000000Z","elapsed_seconds":1860,"configured_budget_seconds":1800,"directive":"retry","attempt":1,"measured_seconds":1860,"event_version":1}', '2025-11-28 12:31:00.000000', NULL),
	('f7fd850f-376b-4491-873e-c205b172826c', 'runtime_control', 'laddered', 'runtime.watchdog.retry', '{"reason":"idle_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:31:00.000000Z","elapsed_seconds":1860,"configured_budget_seconds":1800,"directive":"retry","attempt":1,"measured_seconds":1860,"event_version":1}', '2025-11-28 12:31:00.000000', NULL),
	('a0067eb6-c322-55c0-91c8-cfbb31aa710d', 'runtime_control', 'laddered', 'runtime.watchdog.warning', '{"reason":"wall_clock","session_started_at":"2025-11-28T12:00:00.000000Z","warned_at":"2025-11-28T13:01:00.000000Z","elapsed_seconds":3660,"configured_budget_seconds":14400,"fraction":0.25,"remaining_seconds":10740,"event_version":1}', '2025-11-28 13:01:00.000000', NULL),
	('d28c8d19-7eca-4f69-afd3-ac677e3ea585', 'runtime_control', 'looped', 'runtime.watchdog.warning', '{"reason":"loop_detected","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:00:03.000000Z","elapsed_seconds":3,"configured_budget_seconds":0,"directive":"unstuck","attempt":1,"measured_seconds":3,"spend":{"limit":"loop","used":3,"allowed":0,"pattern":"tail/1/b57f48936a73e82a"},"event_version":1}', '2025-11-28 12:00:03.000000', NULL),
	('ff34c26e-8f4e-4d99-ba32-2ff2b824293b', 'runtime_control', 'looped', 'runtime.watchdog.unstuck', '{"reason":"loop_detected","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:00:03.000000Z","elapsed_seconds":3,"configured_budget_seconds":0,"directive":"unstuck","attempt":1,"measured_seconds":3,"spend":{"limit":"loop","used":3,"allowed":0,"pattern":"tail/1/b57f48936a73e82a"},"event_version":1}', '2025-11-28 12:00:03.000000', NULL),
	('a384a3d6-0bd7-4251-9276-ca1e232053f5', 'runtime_control', 'looped', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:03.000000Z","format":1,"steps":"bG9vcAMDAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAKuhzapNIf7Uq6HNqk0h/tSroc2qTSH+1AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAq6HNqk0h/tSroc2qTSH+1KuhzapNIf7UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACroc2qTSH+1KuhzapNIf7Uq6HNqk0h/tQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA30Qa8LXPYD7fRBrwtc9gPt9EGvC1z2A+AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAAAAAAAAAIAAAAAAAAAAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI+qpzs=","event_version":1}', '2025-11-28 12:00:03.000000', NULL),
	('c3efa5cd-015a-5fb1-8e5d-12edb9d6bd99', 'runtime_control', 'looped', 'runtime.watchdog.cancel', '{"reason":"loop_detected","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:00:05.000000Z","elapsed_seconds":5,"configured_budget_seconds":0,"attempt":2,"measured_seconds":5,"spend":{"limit":"loop","used":5,"allowed":0,"pattern":"tail/1/b57f48936a73e82a"},"event_version":1}', '2025-11-28 12:00:05.000000', NULL),
	('73454fc2-04c6-5c75-a4a3-2cff0fcc9759', 'runtime_control', 'spent', 'runtime.watchdog.warning', '{"reason":"requests","session_started_at":"2025-11-28T12:00:00.000000Z","warned_at":"2025-11-28T12:00:02.000000Z","elapsed_seconds":2,"configured_budget_seconds":0,"fraction":0.5,"remaining_seconds":0,"spend":{"limit":"requests","used":2,"allowed":4},"event_version":1}', '2025-11-28 12:00:02.000000', NULL),
	('4f1ed80c-47ae-5112-bddb-60ea37822313', 'runtime_control', 'spent', 'runtime.watchdog.wrap_up', '{"reason":"requests","session_started_at":"2025-11-28T12:00:00.000000Z","asked_at":"2025-11-28T12:00:03.000000Z","elapsed_seconds":3,"configured_budget_seconds":0,"remaining_seconds":0,"spend":{"limit":"requests","used":3,"allowed":4},"event_version":1}', '2025-11-28 12:00:03.000000', NULL),
	('af281247-cda5-5ea7-afb7-cd380712384c', 'runtime_control', 'spent', 'runtime.watchdog.cancel', '{"reason":"requests_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:00:05.000000Z","elapsed_seconds":5,"configured_budget_seconds":0,"measured_seconds":5,"spend":{"limit":"requests","used":4,"allowed":4,"needed":1},"event_version":1}', '2025-11-28 12:00:05.000000', NULL),
	('cb268552-4cc8-5574-b5c5-47372286234b', 'runtime_control', 'owed', 'runtime.watchdog.warning', '{"reason":"idle_timeout","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-29T00:31:09.619014Z","elapsed_seconds":0,"configured_budget_seconds":0.001,"directive":"cancel","attempt":1,"measured_seconds":0.074014,"author":"system-watchdog","last_event_at":"2025-11-29T00:31:09.545000Z","event_version":1}', '2025-11-29 00:31:09.619013', NULL),
	('6e4643e7-f7cf-5f74-bed8-f2e5db841c26', 'runtime_control', 'owed', 'runtime.watchdog.cancel', '{"reason":"idle_timeout","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-29T00:31:09.619014Z","elapsed_seconds":0,"configured_budget_seconds":0.001,"measured_seconds":0.074014,"author":"system-watchdog","last_event_at":"2025-11-29T00:31:09.545000Z","event_version":1}', '2025-11-29 00:31:09.619014', NULL),
	('72dc8f07-9abe-545f-b56f-9d6af410860f', 'runtime_control', 'kept', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:00.000000Z","format":1,"event_version":1}', '2025-11-28 12:00:00.000000', NULL),
	('88b0ff0a-01ed-5f9e-afcd-214c6c99e3fa', 'runtime_control', 'finished', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:00.000000Z","format":1,"event_version":1}', '2025-11-28 12:00:00.000000', NULL),
	('45c75eeb-2793-5897-8c06-a4fc65525ef9', 'runtime_control', 'finished', 'runtime.watchdog.complete', '{"reason":"complete","session_started_at":"2025-11-28T12:00:00.000000Z","completed_at":"2025-11-28T12:00:00.000000Z","elapsed_seconds":0,"event_version":1}', '2025-11-28 12:00:00.000000', NULL);

INSERT INTO watchdog_leases (id, host, promise, beat, clock, vouched, covered, behind, renewed_at, looks, expired) VALUES
	('5683dbb8-7a3e-40be-8ac6-e4dc58c4f8dc', 'host-b', 1000000000, 5, 1326228163, 990851367, 990851367, NULL, '2025-11-29 00:31:10.992000', 0, NULL);

INSERT INTO watchdog_sessions (run_id, parent, status, created_at, last_event_at, threshold, started_at, host, attempt, resumes, reason, lease, activity, quiet_since, quiet_due, allowance, state, claim, claimed_until, warned_at, warned_lease, warned_beat, warned_last_event, stop_failed, expired_lease, lost, start_key, start_tries, start_due, ended) VALUES
	('finished', '', 'finished', '2025-11-29 00:31:09.684000', '2025-11-29 00:31:09.693000', 0, '2025-11-28 12:00:00.000000', 'host-b', 1, 0, 'complete', NULL, NULL, NULL, NULL, NULL, '{"wall_clock_seconds":14400}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1764376269694000),
	('kept', '', 'active', '2025-11-29 00:31:09.673000', '2025-11-29 00:31:09.673000', 0, '2025-11-28 12:00:00.000000', 'host-b', 1, 0, '', '5683dbb8-7a3e-40be-8ac6-e4dc58c4f8dc', NULL, NULL, NULL, NULL, '{"wall_clock_seconds":14400}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	('owed', '', 'cancelled', '2025-11-29 00:31:09.545000', '2025-11-29 00:31:09.545000', 0, '2025-11-28 12:00:00.000000', 'host-a', 1, 1, 'watchdog_idle_timeout', NULL, NULL, NULL, NULL, NULL, NULL, 'f4b90bb7-0c67-4836-91c5-2e12e02c43a9', NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, '6e4643e7-f7cf-5f74-bed8-f2e5db841c26', 1, 1764376419634000, 1764376269628000),
	('unleased', '', 'active', '2025-11-29 00:31:09.643000', '2025-11-29 00:31:09.643000', 0, '2025-11-28 12:00:00.000000', 'host-a', 1, 0, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO watchdog_outbox (id, event_id, aggregate_type, aggregate_id, event_type, created_at, due_at, tries, paused_at, waited) VALUES
	(1, '8d1cef24-368e-564a-bfe6-25c81f23609a', 'runtime_control', 'cancelled', 'runtime.watchdog.cancel', '2025-11-29 00:31:09.415000', '', 0, '', 0),
	(2, '9f0c91bd-f759-5fea-bbdf-26c8c61c72b6', 'runtime_control', 'layered/tool', 'runtime.watchdog.cancel', '2025-11-29 00:31:09.420000', '', 0, '', 0),
	(3, 'eb339ea9-8017-5473-abd9-5fc7c1bf3741', 'runtime_control', 'completed', 'runtime.watchdog.complete', '2025-11-29 00:31:09.425000', '', 0, '', 0),
	(4, 'd5f8babc-172f-5185-a8fd-86082ed31430', 'runtime_control', 'resumed', 'runtime.watchdog.cancel', '2025-11-29 00:31:09.437000', '', 0, '', 0),
	(5, 'c3efa5cd-015a-5fb1-8e5d-12edb9d6bd99', 'runtime_control', 'looped', 'runtime.watchdog.cancel', '2025-11-29 00:31:09.517000', '', 0, '', 0),
	(6, 'af281247-cda5-5ea7-afb7-cd380712384c', 'runtime_control', 'spent', 'runtime.watchdog.cancel', '2025-11-29 00:31:09.536000', '', 0, '', 0),
	(7, '6e4643e7-f7cf-5f74-bed8-f2e5db841c26', 'runtime_control', 'owed', 'runtime.watchdog.cancel', '2025-11-29 00:31:09.630000', '', 0, '', 0),
	(8, '45c75eeb-2793-5897-8c06-a4fc65525ef9', 'runtime_control', 'finished', 'runtime.watchdog.complete', '2025-11-29 00:31:09.691000', '', 0, '', 0);

INSERT INTO watchdog_spend (scope, window_name, currency, ends_at, input_tokens, output_tokens, tokens, cost, requests, turns, tool_calls) VALUES
	('275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '', NULL, 0, 0, 0, 0, 4, 0, 0),
	('tenant-7', '', 'EUR', NULL, 0, 0, 0, 0, 0, 0, 0),
	('tenant-7', 'month 2025-11-01T00:00:00Z', '', '2025-12-01 00:00:00.000000', 0, 0, 0, 1250000, 3, 0, 0);

INSERT INTO watchdog_slices (id, scope, window_name, taken_at, host, pid, granted_input_tokens, granted_output_tokens, granted_tokens, granted_cost, granted_requests, granted_turns, granted_tool_calls, returned_at, returned_input_tokens, returned_output_tokens, returned_tokens, returned_cost, returned_requests, returned_turns, returned_tool_calls) VALUES
	('41be43b5-d62e-44bc-a91b-2e5ce2bab325', 'tenant-7', 'month 2025-11-01T00:00:00Z', '2025-11-29 00:31:09.540748', 'host-b', 623, 0, 0, 0, 769042, 2, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('493abe97-9758-478f-873f-bfdb9a79cf05', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:09.525557', 'host-b', 623, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('5d790b14-8fba-448d-9fc9-55ffcd2e077e', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:09.533225', 'host-b', 623, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('778b5a78-465f-427a-9e2e-3c805844c9d1', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:09.523371', 'host-b', 623, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('815e87e7-7aac-42cc-928c-2239594e92f1', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:09.520449', 'host-b', 623, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('a6df3072-cddb-4598-b74b-cab259a09732', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:09.528985', 'host-b', 623, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('c8564c7b-003e-4669-8b11-a774dadc6ed3', 'tenant-7', 'month 2025-11-01T00:00:00Z', '2025-11-29 00:31:09.539606', 'host-b', 623, 0, 0, 0, 781250, 1, 0, 0, '2025-11-29 00:31:09.541991', 0, 0, 0, 300292, 0, 0, 0);

INSERT INTO watchdog_schema (version, oldest_reader) VALUES
	(8, 8);

CREATE INDEX watchdog_slices_window ON watchdog_slices (scope, window_name);
CREATE INDEX watchdog_outbox_event ON watchdog_outbox (event_id);
CREATE INDEX watchdog_events_parent ON events (CASE WHEN NOT json_valid(CAST(payload AS TEXT)) THEN NULL
		WHEN json_type(CAST(payload AS TEXT), '$.parent') = 'text'
		THEN json_extract(CAST(payload AS TEXT), '$.parent') END) WHERE +aggregate_type = 'runtime_control' COLLATE BINARY AND CASE WHEN NOT json_valid(CAST(payload AS TEXT)) THEN NULL
		WHEN json_type(CAST(payload AS TEXT), '$.parent') = 'text'
		THEN json_extract(CAST(payload AS TEXT), '$.parent') END IS NOT NULL;
CREATE INDEX watchdog_events_foreign_time ON events (aggregate_type, aggregate_id) WHERE (typeof(timestamp) <> 'text' OR timestamp NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]');
CREATE INDEX watchdog_sessions_silent ON watchdog_sessions (silent, run_id, created) WHERE status = 'active' AND lease IS NULL AND threshold = 0;
CREATE INDEX watchdog_sessions_due ON watchdog_sessions (due, run_id, created) WHERE status = 'active' AND lease IS NULL AND threshold > 0;
CREATE INDEX watchdog_sessions_unreadable ON watchdog_sessions (run_id) WHERE status = 'active' AND (created IS NULL OR silent IS NULL OR threshold < 0);
CREATE INDEX watchdog_sessions_lease ON watchdog_sessions (lease, run_id) WHERE status = 'active' AND lease IS NOT NULL;
CREATE INDEX watchdog_sessions_quiet ON watchdog_sessions (lease, quiet_since, run_id, created) WHERE quiet_since IS NOT NULL AND status = 'active' AND lease IS NOT NULL AND created IS NOT NULL AND silent IS NOT NULL AND threshold >= 0;
CREATE INDEX watchdog_sessions_quiet_due ON watchdog_sessions (lease, quiet_due, run_id, created) WHERE quiet_due IS NOT NULL AND status = 'active' AND lease IS NOT NULL AND created IS NOT NULL AND silent IS NOT NULL AND threshold >= 0;
CREATE INDEX watchdog_sessions_created ON watchdog_sessions (created, run_id);
CREATE INDEX watchdog_sessions_live ON watchdog_sessions (created, run_id) WHERE status = 'active';
CREATE INDEX watchdog_sessions_parent ON watchdog_sessions (parent, created, run_id) WHERE parent <> '';
CREATE INDEX watchdog_sessions_host ON watchdog_sessions (host, created, run_id);
CREATE INDEX watchdog_sessions_start ON watchdog_sessions (start_due, run_id) WHERE start_due IS NOT NULL AND status = 'cancelled';
CREATE INDEX watchdog_outbox_due ON watchdog_outbox (due_at);
CREATE INDEX watchdog_events_aggregate ON events ("aggregate_type", "aggregate_id", "timestamp");
CREATE INDEX watchdog_events_type ON events ("event_type");
CREATE TRIGGER watchdog_leases_named BEFORE DELETE ON watchdog_leases
	WHEN EXISTS (SELECT 1 FROM watchdog_sessions WHERE status = 'active' AND lease IS NOT NULL AND lease = old.id)
	BEGIN
		SELECT RAISE(ABORT, 'active sessions name this lease: a sweeper finds out whether its process is dead');
	END;
CREATE TRIGGER watchdog_lease_ends_untold AFTER DELETE ON watchdog_leases BEGIN
		DELETE FROM watchdog_lease_ends WHERE lease = old.id;
	END;
