-- Written by the code of commit d1964cec06 (runs, sessions, notices and charges), and then moved to the year 2025.
-- See store/internal/beforetest, which tests what the code of now makes of it.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE public.events (
    id character varying(36) NOT NULL,
    aggregate_type character varying(100) NOT NULL,
    aggregate_id character varying(255) NOT NULL,
    event_type character varying(200) NOT NULL,
    payload json NOT NULL,
    "timestamp" timestamp with time zone NOT NULL,
    consensus_id character varying(36)
);

CREATE TABLE public.watchdog_lease_ends (
    lease character varying(255) NOT NULL COLLATE pg_catalog."C",
    run_id character varying(255) NOT NULL COLLATE pg_catalog."C",
    attempt bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE public.watchdog_leases (
    id character varying(255) NOT NULL COLLATE pg_catalog."C",
    host text DEFAULT ''::text NOT NULL,
    promise bigint NOT NULL,
    beat bigint NOT NULL,
    clock bigint NOT NULL,
    vouched bigint NOT NULL,
    covered bigint DEFAULT 0 NOT NULL,
    behind json,
    renewed_at timestamp with time zone NOT NULL,
    looks bigint DEFAULT 0 NOT NULL,
    expired timestamp with time zone
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE public.watchdog_outbox (
    id bigint NOT NULL,
    event_id text NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id text NOT NULL,
    event_type text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    tries bigint DEFAULT 0 NOT NULL,
    paused_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    waited bigint DEFAULT 0 NOT NULL,
    alert boolean DEFAULT false NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE public.watchdog_outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.watchdog_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.watchdog_schema (
    version integer NOT NULL,
    oldest_reader integer NOT NULL
);

CREATE TABLE public.watchdog_sessions (
    run_id character varying(255) NOT NULL COLLATE pg_catalog."C",
    parent character varying(255) DEFAULT ''::character varying NOT NULL,
    status character varying(20) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_event_at timestamp with time zone,
    threshold bigint DEFAULT 0 NOT NULL,
    started_at timestamp with time zone NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    attempt bigint NOT NULL,
    resumes bigint DEFAULT 0 NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    lease character varying(255) COLLATE pg_catalog."C",
    activity bigint,
    quiet_since bigint,
    quiet_due bigint,
    allowance bigint,
    state json,
    claim text,
    claimed_until timestamp with time zone,
    warned_at timestamp with time zone,
    warned_lease text,
    warned_beat bigint,
    warned_last_event timestamp with time zone,
    stop_failed boolean,
    expired_lease text,
    lost boolean,
    start_key text,
    start_tries bigint,
    start_due timestamp with time zone,
    ended_at timestamp with time zone,
    readable boolean GENERATED ALWAYS AS ((((status)::text = ANY ('{active,cancelled,interrupted,finished}'::text[])) AND (threshold >= 0) AND (attempt >= 0) AND (resumes >= 0) AND (created_at >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-31 23:59:59.999999+00'::timestamp with time zone) AND (COALESCE(last_event_at, created_at) >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (COALESCE(last_event_at, created_at) <= '9999-12-31 23:59:59.999999+00'::timestamp with time zone) AND (started_at >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-31 23:59:59.999999+00'::timestamp with time zone))) STORED,
    silent timestamp with time zone GENERATED ALWAYS AS (COALESCE(last_event_at, created_at)) STORED,
    due timestamp with time zone GENERATED ALWAYS AS ((((COALESCE(last_event_at, created_at) AT TIME ZONE 'UTC'::text) + (((threshold / 1000))::double precision * '00:00:00.000001'::interval)) AT TIME ZONE 'UTC'::text)) STORED
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE public.watchdog_slices (
    id character varying(36) NOT NULL COLLATE pg_catalog."C",
    scope character varying(255) NOT NULL COLLATE pg_catalog."C",
    window_name character varying(64) NOT NULL COLLATE pg_catalog."C",
    taken_at timestamp with time zone NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    pid bigint DEFAULT 0 NOT NULL,
    granted_input_tokens bigint NOT NULL,
    granted_output_tokens bigint NOT NULL,
    granted_tokens bigint NOT NULL,
    granted_cost bigint NOT NULL,
    granted_requests bigint NOT NULL,
    granted_turns bigint NOT NULL,
    granted_tool_calls bigint NOT NULL,
    returned_at timestamp with time zone,
    returned_input_tokens bigint DEFAULT 0 NOT NULL,
    returned_output_tokens bigint DEFAULT 0 NOT NULL,
    returned_tokens bigint DEFAULT 0 NOT NULL,
    returned_cost bigint DEFAULT 0 NOT NULL,
    returned_requests bigint DEFAULT 0 NOT NULL,
    returned_turns bigint DEFAULT 0 NOT NULL,
    returned_tool_calls bigint DEFAULT 0 NOT NULL
);

CREATE TABLE public.watchdog_spend (
    scope character varying(255) NOT NULL COLLATE pg_catalog."C",
    window_name character varying(64) NOT NULL COLLATE pg_catalog."C",
    currency character varying(16) DEFAULT ''::character varying NOT NULL,
    ends_at timestamp with time zone,
    input_tokens bigint DEFAULT 0 NOT NULL,
    output_tokens bigint DEFAULT 0 NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    cost bigint DEFAULT 0 NOT NULL,
    requests bigint DEFAULT 0 NOT NULL,
    turns bigint DEFAULT 0 NOT NULL,
    tool_calls bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02');

INSERT INTO public.events VALUES
	('49398cb6-f47d-5ee2-a27f-4b9d76fa4706', 'runtime_control', 'continued', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:00.000000Z","format":1}', '2025-11-28 12:00:00+00', NULL),
	('ff49e6b3-9d7b-4ab2-a97a-2642833decf6', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-0","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:00:00.000000Z","opened_seconds":0,"cap_seconds":3600}', '2025-11-28 12:00:00+00', NULL),
	('f7a84f6a-effb-5960-bc99-d45ccd3f6db8', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-0","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:01:00.000000Z","released_seconds":60,"opening":"ff49e6b3-9d7b-4ab2-a97a-2642833decf6"}', '2025-11-28 12:01:00+00', NULL),
	('bfd1fe3a-0423-47cc-bac9-c613ec64b994', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-1","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:01:01.000000Z","opened_seconds":61,"cap_seconds":3600}', '2025-11-28 12:01:01+00', NULL),
	('616d9636-82d9-5f75-a9fc-aaadb7140707', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-1","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:02:01.000000Z","released_seconds":121,"opening":"bfd1fe3a-0423-47cc-bac9-c613ec64b994"}', '2025-11-28 12:02:01+00', NULL),
	('541edc5f-d8c3-4f91-9330-8d646be7fbed', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-2","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:02:02.000000Z","opened_seconds":122,"cap_seconds":3600}', '2025-11-28 12:02:02+00', NULL),
	('a2ed57f0-00e1-56be-a285-87382869312d', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-2","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:03:02.000000Z","released_seconds":182,"opening":"541edc5f-d8c3-4f91-9330-8d646be7fbed"}', '2025-11-28 12:03:02+00', NULL),
	('2faed2f3-782c-4902-8157-f3c791c9d25e', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-3","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:03:03.000000Z","opened_seconds":183,"cap_seconds":3600}', '2025-11-28 12:03:03+00', NULL),
	('6f3dfb4a-afef-5bdb-b445-5bf3de40e305', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-3","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:04:03.000000Z","released_seconds":243,"opening":"2faed2f3-782c-4902-8157-f3c791c9d25e"}', '2025-11-28 12:04:03+00', NULL),
	('ab0e2932-e802-4941-b78d-6641fc9812ee', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-4","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:04:04.000000Z","opened_seconds":244,"cap_seconds":3600}', '2025-11-28 12:04:04+00', NULL),
	('fcd6f66f-07c9-5b14-b10c-2106606ee7b0', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-4","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:05:04.000000Z","released_seconds":304,"opening":"ab0e2932-e802-4941-b78d-6641fc9812ee"}', '2025-11-28 12:05:04+00', NULL),
	('9f325a80-63e1-45ae-97f2-96961f49af94', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-5","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:05:05.000000Z","opened_seconds":305,"cap_seconds":3600}', '2025-11-28 12:05:05+00', NULL),
	('5ffbce0b-871f-5a6b-b55d-2b759b693a35', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-5","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:06:05.000000Z","released_seconds":365,"opening":"9f325a80-63e1-45ae-97f2-96961f49af94"}', '2025-11-28 12:06:05+00', NULL),
	('3e10a600-1212-4224-b505-02b17920cd3c', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-6","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:06:06.000000Z","opened_seconds":366,"cap_seconds":3600}', '2025-11-28 12:06:06+00', NULL),
	('d44bfa74-92c1-5d2b-9b3d-6343d0cd636e', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-6","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:07:06.000000Z","released_seconds":426,"opening":"3e10a600-1212-4224-b505-02b17920cd3c"}', '2025-11-28 12:07:06+00', NULL),
	('55dcc089-264e-46e1-b707-44e5eaf727ea', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-7","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:07:07.000000Z","opened_seconds":427,"cap_seconds":3600}', '2025-11-28 12:07:07+00', NULL),
	('48e8b472-03c2-54d5-86eb-4acffa37587d', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-7","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:08:07.000000Z","released_seconds":487,"opening":"55dcc089-264e-46e1-b707-44e5eaf727ea"}', '2025-11-28 12:08:07+00', NULL),
	('3caaeea9-8958-42b3-9cfd-d8a979f781e3', 'runtime_control', 'eventful', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:08:07.000000Z","format":1,"from":"2025-11-28T11:00:00.000000Z","since":"2025-11-28T11:07:07.000001Z","until":"2025-11-28T12:07:07.000002Z","known":16,"settled":{},"folded":{"windows":[{"session_started_at":"2025-11-28T12:00:00.000000Z","pauses":[{"id":"2faed2f3-782c-4902-8157-f3c791c9d25e","hold":"person-3","opened":true,"opened_seconds":183,"cap_seconds":3600,"released":true,"released_seconds":243},{"id":"3e10a600-1212-4224-b505-02b17920cd3c","hold":"person-6","opened":true,"opened_seconds":366,"cap_seconds":3600,"released":true,"released_seconds":426},{"id":"541edc5f-d8c3-4f91-9330-8d646be7fbed","hold":"person-2","opened":true,"opened_seconds":122,"cap_seconds":3600,"released":true,"released_seconds":182},{"id":"55dcc089-264e-46e1-b707-44e5eaf727ea","hold":"person-7","opened":true,"opened_seconds":427,"cap_seconds":3600},{"id":"9f325a80-63e1-45ae-97f2-96961f49af94","hold":"person-5","opened":true,"opened_seconds":305,"cap_seconds":3600,"released":true,"released_seconds":365},{"id":"ab0e2932-e802-4941-b78d-6641fc9812ee","hold":"person-4","opened":true,"opened_seconds":244,"cap_seconds":3600,"released":true,"released_seconds":304},{"id":"bfd1fe3a-0423-47cc-bac9-c613ec64b994","hold":"person-1","opened":true,"opened_seconds":61,"cap_seconds":3600,"released":true,"released_seconds":121},{"id":"ff49e6b3-9d7b-4ab2-a97a-2642833decf6","hold":"person-0","opened":true,"cap_seconds":3600,"released":true,"released_seconds":60}]}]}}', '2025-11-28 12:07:07.000001+00', NULL),
	('70b2f564-e9f5-4cc4-bb3f-78e538caa6ca', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-8","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:08:08.000000Z","opened_seconds":488,"cap_seconds":3600}', '2025-11-28 12:08:08+00', NULL),
	('c702f7e5-98cd-567c-ae52-d7e5c52ad82e', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-8","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:09:08.000000Z","released_seconds":548,"opening":"70b2f564-e9f5-4cc4-bb3f-78e538caa6ca"}', '2025-11-28 12:09:08+00', NULL),
	('9211f606-5aa3-4d3c-8344-1fb2fadf0926', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-9","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:09:09.000000Z","opened_seconds":549,"cap_seconds":3600}', '2025-11-28 12:09:09+00', NULL),
	('3d6fec32-e81a-5273-ae27-bbb1113fa7e0', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-9","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:10:09.000000Z","released_seconds":609,"opening":"9211f606-5aa3-4d3c-8344-1fb2fadf0926"}', '2025-11-28 12:10:09+00', NULL),
	('9c120004-6380-41eb-bef9-aee88cefeb19', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-10","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:10:10.000000Z","opened_seconds":610,"cap_seconds":3600}', '2025-11-28 12:10:10+00', NULL),
	('abf5d348-5627-5246-bcb7-ddac66015f5b', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-10","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:11:10.000000Z","released_seconds":670,"opening":"9c120004-6380-41eb-bef9-aee88cefeb19"}', '2025-11-28 12:11:10+00', NULL),
	('f0f1149f-3aae-49f1-8837-56d137998a70', 'runtime_control', 'eventful', 'runtime.watchdog.hold', '{"hold":"person-11","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:11:11.000000Z","opened_seconds":671,"cap_seconds":3600}', '2025-11-28 12:11:11+00', NULL),
	('3dbd01e6-89cf-55ca-b998-31c8c00e9dc6', 'runtime_control', 'eventful', 'runtime.watchdog.release', '{"hold":"person-11","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:12:11.000000Z","released_seconds":731,"opening":"f0f1149f-3aae-49f1-8837-56d137998a70"}', '2025-11-28 12:12:11+00', NULL),
	('4716b0c3-5340-5e1c-b841-b689b77b3ee9', 'runtime_control', 'continued-eventful', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:00.000000Z","format":1}', '2025-11-28 12:00:00+00', NULL),
	('1043b717-015a-4edc-af6f-07b586858b64', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:01:00.000000Z","elapsed_seconds":60,"extension_seconds":1,"configured_budget_seconds":14401}', '2025-11-28 12:01:00+00', NULL),
	('e8b389c0-6d5b-4638-88f4-0b8959a18f72', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:02:00.000000Z","elapsed_seconds":120,"extension_seconds":2,"configured_budget_seconds":14403}', '2025-11-28 12:02:00+00', NULL),
	('aac163b2-65c9-4ffd-86f1-c6a86a37e409', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:03:00.000000Z","elapsed_seconds":180,"extension_seconds":3,"configured_budget_seconds":14406}', '2025-11-28 12:03:00+00', NULL),
	('6d8e4564-f1cc-4707-9ef4-85e6f505c57c', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:04:00.000000Z","elapsed_seconds":240,"extension_seconds":4,"configured_budget_seconds":14410}', '2025-11-28 12:04:00+00', NULL),
	('749d9de0-89bf-482e-9721-b96716743e3f', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:05:00.000000Z","elapsed_seconds":300,"extension_seconds":5,"configured_budget_seconds":14415}', '2025-11-28 12:05:00+00', NULL),
	('b0cd0c0a-8a6d-4849-aa44-62cdd64e37a7', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:06:00.000000Z","elapsed_seconds":360,"extension_seconds":6,"configured_budget_seconds":14421}', '2025-11-28 12:06:00+00', NULL),
	('d27a9d57-23a8-47ef-9566-fdf1cfd5de5f', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:07:00.000000Z","elapsed_seconds":420,"extension_seconds":7,"configured_budget_seconds":14428}', '2025-11-28 12:07:00+00', NULL),
	('34958cc9-cfb2-4b14-8831-84ca79855bdf', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:08:00.000000Z","elapsed_seconds":480,"extension_seconds":8,"configured_budget_seconds":14436}', '2025-11-28 12:08:00+00', NULL),
	('582a2b16-5e89-40a7-8f28-07408525dde9', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:09:00.000000Z","elapsed_seconds":540,"extension_seconds":9,"configured_budget_seconds":14445}', '2025-11-28 12:09:00+00', NULL),
	('fafe0457-2a2c-494d-a8b5-69708cceceff', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:10:00.000000Z","elapsed_seconds":600,"extension_seconds":10,"configured_budget_seconds":14455}', '2025-11-28 12:10:00+00', NULL),
	('a0f28f3f-f23e-4024-afdc-473219590ef8', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:11:00.000000Z","elapsed_seconds":660,"extension_seconds":11,"configured_budget_seconds":14466}', '2025-11-28 12:11:00+00', NULL),
	('db90177f-b3ae-42af-93d9-f075eb065080', 'runtime_control', 'continued-eventful', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:12:00.000000Z","elapsed_seconds":720,"extension_seconds":12,"configured_budget_seconds":14478}', '2025-11-28 12:12:00+00', NULL),
	('ee2abf70-4a94-47e2-aaee-b4f2204673ca', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-0","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:12:00.000000Z","opened_seconds":720,"cap_seconds":3600}', '2025-11-28 12:12:00+00', NULL),
	('801f8e29-127f-5d5f-bccf-56eb94a02fea', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-0","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:13:00.000000Z","released_seconds":780,"opening":"ee2abf70-4a94-47e2-aaee-b4f2204673ca"}', '2025-11-28 12:13:00+00', NULL),
	('48088b36-907e-40be-b3c2-494f0b242cea', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-1","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:13:00.000000Z","opened_seconds":780,"cap_seconds":3600}', '2025-11-28 12:13:00+00', NULL),
	('ce9b5d5a-a7d7-5fde-88a3-264b39021d8b', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-1","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:14:00.000000Z","released_seconds":840,"opening":"48088b36-907e-40be-b3c2-494f0b242cea"}', '2025-11-28 12:14:00+00', NULL),
	('b6f39f18-07b0-4a33-846d-1c9fea02b2fc', 'runtime_control', 'continued-eventful', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:14:00.000000Z","format":1,"from":"2025-11-28T11:00:00.000000Z","since":"2025-11-28T11:13:00.000001Z","until":"2025-11-28T12:13:00.000002Z","known":17,"settled":{},"folded":{"windows":[{"session_started_at":"2025-11-28T12:00:00.000000Z","extension_seconds":78,"pauses":[{"id":"48088b36-907e-40be-b3c2-494f0b242cea","hold":"person-1","opened":true,"opened_seconds":780,"cap_seconds":3600},{"id":"ee2abf70-4a94-47e2-aaee-b4f2204673ca","hold":"person-0","opened":true,"opened_seconds":720,"cap_seconds":3600,"released":true,"released_seconds":780}]}]}}', '2025-11-28 12:13:00.000001+00', NULL),
	('c7640a12-3e3c-477a-8246-fc9169cbb61b', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-2","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:14:00.000000Z","opened_seconds":840,"cap_seconds":3600}', '2025-11-28 12:14:00+00', NULL),
	('9b0a0b2a-5b2d-550a-ad16-519c5d4a47da', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-2","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:15:00.000000Z","released_seconds":900,"opening":"c7640a12-3e3c-477a-8246-fc9169cbb61b"}', '2025-11-28 12:15:00+00', NULL),
	('dd176b68-1ad8-4829-acb8-61ae8398291b', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-3","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:15:00.000000Z","opened_seconds":900,"cap_seconds":3600}', '2025-11-28 12:15:00+00', NULL),
	('3ee2dae8-1226-5d5c-8549-84ed24069edb', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-3","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:16:00.000000Z","released_seconds":960,"opening":"dd176b68-1ad8-4829-acb8-61ae8398291b"}', '2025-11-28 12:16:00+00', NULL),
	('6823619a-d841-4d89-838f-215b53df1e55', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-4","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:16:00.000000Z","opened_seconds":960,"cap_seconds":3600}', '2025-11-28 12:16:00+00', NULL),
	('d8ca2e9a-5b89-58d4-95f2-da51d2489bdf', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-4","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:17:00.000000Z","released_seconds":1020,"opening":"6823619a-d841-4d89-838f-215b53df1e55"}', '2025-11-28 12:17:00+00', NULL),
	('ea02ba60-ade3-4a0c-be8d-ad6a5ef039b8', 'runtime_control', 'continued-eventful', 'runtime.watchdog.hold', '{"hold":"person-5","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:17:00.000000Z","opened_seconds":1020,"cap_seconds":3600}', '2025-11-28 12:17:00+00', NULL),
	('de83db53-4c90-5f02-a420-46a2cf706915', 'runtime_control', 'continued-eventful', 'runtime.watchdog.release', '{"hold":"person-5","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:18:00.000000Z","released_seconds":1080,"opening":"ea02ba60-ade3-4a0c-be8d-ad6a5ef039b8"}', '2025-11-28 12:18:00+00', NULL),
	('8d1cef24-368e-564a-bfe6-25c81f23609a', 'runtime_control', 'cancelled', 'runtime.watchdog.cancel', '{"reason":"wall_clock_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T16:00:01.000000Z","elapsed_seconds":14401,"configured_budget_seconds":14400,"note":"tool call"}', '2025-11-28 16:00:01+00', NULL),
	('0ba608db-bf60-5ee7-9bfb-e7819ca16645', 'runtime_control', 'layered/tool', 'runtime.watchdog.cancel', '{"reason":"wall_clock_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:02:00.000000Z","elapsed_seconds":120,"configured_budget_seconds":60,"parent":"layered","window":"636e1175-3038-4ae6-ac93-65e4ad95ff85"}', '2025-11-28 12:02:00+00', NULL),
	('eb339ea9-8017-5473-abd9-5fc7c1bf3741', 'runtime_control', 'completed', 'runtime.watchdog.complete', '{"reason":"complete","session_started_at":"2025-11-28T12:00:00.000000Z","completed_at":"2025-11-28T13:00:00.000000Z","elapsed_seconds":3600}', '2025-11-28 13:00:00+00', NULL),
	('d5f8babc-172f-5185-a8fd-86082ed31430', 'runtime_control', 'resumed', 'runtime.watchdog.cancel', '{"reason":"wall_clock_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T17:00:00.000000Z","elapsed_seconds":18000,"configured_budget_seconds":14400}', '2025-11-28 17:00:00+00', NULL),
	('46aaf114-cadb-5520-aa2d-7d351f3c5194', 'runtime_control', 'resumed', 'runtime.watchdog.resume', '{"session_started_at":"2025-11-28T18:00:00.000000Z","previous_started_at":"2025-11-28T12:00:00.000000Z"}', '2025-11-28 18:00:00+00', NULL),
	('22d2b539-1a2a-4429-81a3-4a1312135834', 'runtime_control', 'held', 'runtime.watchdog.hold', '{"hold":"approval","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:01:00.000000Z","opened_seconds":60,"cap_seconds":7200}', '2025-11-28 12:01:00+00', NULL),
	('7de72e18-dba1-4d6e-a21a-85bc2cc760ef', 'runtime_control', 'released', 'runtime.watchdog.hold', '{"hold":"approval","session_started_at":"2025-11-28T12:00:00.000000Z","opened_at":"2025-11-28T12:00:00.000000Z","opened_seconds":0,"cap_seconds":7200}', '2025-11-28 12:00:00+00', NULL),
	('999d2c0f-ca46-586e-a4db-ffb4125885e8', 'runtime_control', 'released', 'runtime.watchdog.release', '{"hold":"approval","session_started_at":"2025-11-28T12:00:00.000000Z","released_at":"2025-11-28T12:10:00.000000Z","released_seconds":600,"opening":"7de72e18-dba1-4d6e-a21a-85bc2cc760ef"}', '2025-11-28 12:10:00+00', NULL),
	('6a79aa38-b0ba-44b3-b240-90524a801e22', 'runtime_control', 'extended', 'runtime.watchdog.extend', '{"session_started_at":"2025-11-28T12:00:00.000000Z","extended_at":"2025-11-28T12:00:00.000000Z","elapsed_seconds":0,"extension_seconds":3600,"configured_budget_seconds":18000}', '2025-11-28 12:00:00+00', NULL),
	('7d5f646b-fa48-49fd-b6ef-90177cebf3d6', 'runtime_control', 'laddered', 'runtime.watchdog.warning', '{"reason":"idle_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:31:00.000000Z","elapsed_seconds":1860,"configured_budget_seconds":1800,"directive":"retry","attempt":1,"measured_seconds":1860}', '2025-11-28 12:31:00+00', NULL),
	('802e6951-7a5b-48aa-af86-0abc3a40ce3f', 'runtime_control', 'laddered', 'runtime.watchdog.retry', '{"reason":"idle_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:31:00.000000Z","elapsed_seconds":1860,"configured_budget_seconds":1800,"directive":"retry","attempt":1,"measured_seconds":1860}', '2025-11-28 12:31:00+00', NULL),
	('a0067eb6-c322-55c0-91c8-cfbb31aa710d', 'runtime_control', 'laddered', 'runtime.watchdog.warning', '{"reason":"wall_clock","session_started_at":"2025-11-28T12:00:00.000000Z","warned_at":"2025-11-28T13:01:00.000000Z","elapsed_seconds":3660,"configured_budget_seconds":14400,"fraction":0.25,"remaining_seconds":10740}', '2025-11-28 13:01:00+00', NULL),
	('c8deba1f-5d41-4220-94ee-29b86b205306', 'runtime_control', 'looped', 'runtime.watchdog.warning', '{"reason":"loop_detected","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:00:03.000000Z","elapsed_seconds":3,"configured_budget_seconds":0,"directive":"unstuck","attempt":1,"measured_seconds":3,"spend":{"limit":"loop","used":3,"allowed":0,"pattern":"tail/1/b57f48936a73e82a"}}', '2025-11-28 12:00:03+00', NULL),
	('f7c269c6-e3b9-4324-a782-546dd84805a0', 'runtime_control', 'looped', 'runtime.watchdog.unstuck', '{"reason":"loop_detected","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:00:03.000000Z","elapsed_seconds":3,"configured_budget_seconds":0,"directive":"unstuck","attempt":1,"measured_seconds":3,"spend":{"limit":"loop","used":3,"allowed":0,"pattern":"tail/1/b57f48936a73e82a"}}', '2025-11-28 12:00:03+00', NULL),
	('407d27a0-6913-4269-9e12-684ba32a694b', 'runtime_control', 'looped', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:03.000000Z","format":1,"steps":"bG9vcAMDAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAKuhzapNIf7Uq6HNqk0h/tSroc2qTSH+1AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAq6HNqk0h/tSroc2qTSH+1KuhzapNIf7UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACroc2qTSH+1KuhzapNIf7Uq6HNqk0h/tQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA30Qa8LXPYD7fRBrwtc9gPt9EGvC1z2A+AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAAAAAAAAAIAAAAAAAAAAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI+qpzs="}', '2025-11-28 12:00:03+00', NULL),
	('c3efa5cd-015a-5fb1-8e5d-12edb9d6bd99', 'runtime_control', 'looped', 'runtime.watchdog.cancel', '{"reason":"loop_detected","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:00:05.000000Z","elapsed_seconds":5,"configured_budget_seconds":0,"attempt":2,"measured_seconds":5,"spend":{"limit":"loop","used":5,"allowed":0,"pattern":"tail/1/b57f48936a73e82a"}}', '2025-11-28 12:00:05+00', NULL),
	('73454fc2-04c6-5c75-a4a3-2cff0fcc9759', 'runtime_control', 'spent', 'runtime.watchdog.warning', '{"reason":"requests","session_started_at":"2025-11-28T12:00:00.000000Z","warned_at":"2025-11-28T12:00:02.000000Z","elapsed_seconds":2,"configured_budget_seconds":0,"fraction":0.5,"remaining_seconds":0,"spend":{"limit":"requests","used":2,"allowed":4}}', '2025-11-28 12:00:02+00', NULL),
	('4f1ed80c-47ae-5112-bddb-60ea37822313', 'runtime_control', 'spent', 'runtime.watchdog.wrap_up', '{"reason":"requests","session_started_at":"2025-11-28T12:00:00.000000Z","asked_at":"2025-11-28T12:00:03.000000Z","elapsed_seconds":3,"configured_budget_seconds":0,"remaining_seconds":0,"spend":{"limit":"requests","used":3,"allowed":4}}', '2025-11-28 12:00:03+00', NULL),
	('af281247-cda5-5ea7-afb7-cd380712384c', 'runtime_control', 'spent', 'runtime.watchdog.cancel', '{"reason":"requests_exceeded","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-28T12:00:05.000000Z","elapsed_seconds":5,"configured_budget_seconds":0,"measured_seconds":5,"spend":{"limit":"requests","used":4,"allowed":4,"needed":1}}', '2025-11-28 12:00:05+00', NULL),
	('6e4643e7-f7cf-5f74-bed8-f2e5db841c26', 'runtime_control', 'owed', 'runtime.watchdog.cancel', '{"reason":"idle_timeout","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-29T00:31:17.561539Z","elapsed_seconds":0,"configured_budget_seconds":0.001,"measured_seconds":0.05682,"author":"system-watchdog","last_event_at":"2025-11-29T00:31:17.504719Z"}', '2025-11-29 00:31:17.561539+00', NULL),
	('6a95040b-11c0-5d82-a2f3-f543cdabb57f', 'runtime_control', 'owed', 'runtime.watchdog.warning', '{"reason":"idle_timeout","session_started_at":"2025-11-28T12:00:00.000000Z","fired_at":"2025-11-29T00:31:17.561539Z","elapsed_seconds":0,"configured_budget_seconds":0.001,"directive":"cancel","attempt":1,"measured_seconds":0.05682,"author":"system-watchdog","last_event_at":"2025-11-29T00:31:17.504719Z"}', '2025-11-29 00:31:17.561538+00', NULL),
	('72dc8f07-9abe-545f-b56f-9d6af410860f', 'runtime_control', 'kept', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:00.000000Z","format":1}', '2025-11-28 12:00:00+00', NULL),
	('88b0ff0a-01ed-5f9e-afcd-214c6c99e3fa', 'runtime_control', 'finished', 'runtime.watchdog.checkpoint', '{"session_started_at":"2025-11-28T12:00:00.000000Z","checkpointed_at":"2025-11-28T12:00:00.000000Z","format":1}', '2025-11-28 12:00:00+00', NULL),
	('45c75eeb-2793-5897-8c06-a4fc65525ef9', 'runtime_control', 'finished', 'runtime.watchdog.complete', '{"reason":"complete","session_started_at":"2025-11-28T12:00:00.000000Z","completed_at":"2025-11-28T12:00:00.000000Z","elapsed_seconds":0}', '2025-11-28 12:00:00+00', NULL);

INSERT INTO public.watchdog_leases VALUES
	('9be64af8-24b7-4c63-a4d6-6f0d70bef3c7', 'host-b', 1000000000, 6, 1667181506, 997725387, 997725387, NULL, '2025-11-29 00:31:19.260857+00', 0, NULL);

INSERT INTO public.watchdog_outbox OVERRIDING SYSTEM VALUE VALUES
	(1, '8d1cef24-368e-564a-bfe6-25c81f23609a', 'runtime_control', 'cancelled', 'runtime.watchdog.cancel', '2025-11-29 00:31:17.399921+00', '-infinity', 0, '-infinity', 0, false),
	(2, '0ba608db-bf60-5ee7-9bfb-e7819ca16645', 'runtime_control', 'layered/tool', 'runtime.watchdog.cancel', '2025-11-29 00:31:17.404705+00', '-infinity', 0, '-infinity', 0, false),
	(3, 'eb339ea9-8017-5473-abd9-5fc7c1bf3741', 'runtime_control', 'completed', 'runtime.watchdog.complete', '2025-11-29 00:31:17.409103+00', '-infinity', 0, '-infinity', 0, false),
	(4, 'd5f8babc-172f-5185-a8fd-86082ed31430', 'runtime_control', 'resumed', 'runtime.watchdog.cancel', '2025-11-29 00:31:17.412818+00', '-infinity', 0, '-infinity', 0, false),
	(5, 'c3efa5cd-015a-5fb1-8e5d-12edb9d6bd99', 'runtime_control', 'looped', 'runtime.watchdog.cancel', '2025-11-29 00:31:17.451286+00', '-infinity', 0, '-infinity', 0, false),
	(6, 'af281247-cda5-5ea7-afb7-cd380712384c', 'runtime_control', 'spent', 'runtime.watchdog.cancel', '2025-11-29 00:31:17.480906+00', '-infinity', 0, '-infinity', 0, false),
	(7, '6e4643e7-f7cf-5f74-bed8-f2e5db841c26', 'runtime_control', 'owed', 'runtime.watchdog.cancel', '2025-11-29 00:31:17.571156+00', '-infinity', 0, '-infinity', 0, false),
	(8, '45c75eeb-2793-5897-8c06-a4fc65525ef9', 'runtime_control', 'finished', 'runtime.watchdog.complete', '2025-11-29 00:31:17.612207+00', '-infinity', 0, '-infinity', 0, false);

INSERT INTO public.watchdog_schema VALUES
	(8, 8);

INSERT INTO public.watchdog_sessions VALUES
	('owed', '', 'cancelled', '2025-11-29 00:31:17.504719+00', '2025-11-29 00:31:17.504719+00', 0, '2025-11-28 12:00:00+00', 'host-a', 1, 1, 'watchdog_idle_timeout', NULL, NULL, NULL, NULL, NULL, NULL, '30247048-597e-40da-8dbc-37cdf9187b20', NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, '6e4643e7-f7cf-5f74-bed8-f2e5db841c26', 1, '2025-11-29 00:33:47.577606+00', '2025-11-29 00:31:17.571156+00', DEFAULT, DEFAULT, DEFAULT),
	('unleased', '', 'active', '2025-11-29 00:31:17.584621+00', '2025-11-29 00:31:17.584621+00', 0, '2025-11-28 12:00:00+00', 'host-a', 1, 0, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, DEFAULT, DEFAULT, DEFAULT),
	('kept', '', 'active', '2025-11-29 00:31:17.606636+00', '2025-11-29 00:31:17.606636+00', 0, '2025-11-28 12:00:00+00', 'host-b', 1, 0, '', '9be64af8-24b7-4c63-a4d6-6f0d70bef3c7', NULL, NULL, NULL, NULL, '{"wall_clock_seconds":14400}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, DEFAULT, DEFAULT, DEFAULT),
	('finished', '', 'finished', '2025-11-29 00:31:17.611212+00', '2025-11-29 00:31:17.614235+00', 0, '2025-11-28 12:00:00+00', 'host-b', 1, 0, 'complete', NULL, NULL, NULL, NULL, NULL, '{"wall_clock_seconds":14400}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2025-11-29 00:31:17.614235+00', DEFAULT, DEFAULT, DEFAULT);

INSERT INTO public.watchdog_slices VALUES
	('3d53561f-9443-4309-a033-e057eaed90b6', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:17.456226+00', 'host-b', 623, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('c864ecf9-b76e-4852-9a46-dc50915b96c7', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:17.46114+00', 'host-b', 623, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('d31b66cd-c929-4eee-bc12-a38533222ce0', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:17.464899+00', 'host-b', 623, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('a5da9217-dc5a-440a-93d0-34638cddeafd', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:17.472231+00', 'host-b', 623, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('17072f80-7198-442d-8c76-dbfb9eb57a82', '275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '2025-11-29 00:31:17.475271+00', 'host-b', 623, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('ec36cf04-c899-4b37-bf5b-fe8ab0a5e447', 'tenant-7', 'month 2025-11-01T00:00:00Z', '2025-11-29 00:31:17.491258+00', 'host-b', 623, 0, 0, 0, 769042, 2, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0),
	('1586f4e9-2c43-4010-8319-ec48246a1427', 'tenant-7', 'month 2025-11-01T00:00:00Z', '2025-11-29 00:31:17.490455+00', 'host-b', 623, 0, 0, 0, 781250, 1, 0, 0, '2025-11-29 00:31:17.492523+00', 0, 0, 0, 300292, 0, 0, 0);

INSERT INTO public.watchdog_spend VALUES
	('275df05d-9bf9-5a64-867b-0d8f199fb8d6', '', '', NULL, 0, 0, 0, 0, 4, 0, 0),
	('tenant-7', '', 'EUR', NULL, 0, 0, 0, 0, 0, 0, 0),
	('tenant-7', 'month 2025-11-01T00:00:00Z', '', '2025-12-01 00:00:00+00', 0, 0, 0, 1250000, 3, 0, 0);

SELECT pg_catalog.setval('public.watchdog_outbox_id_seq', 8, true);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.watchdog_lease_ends
    ADD CONSTRAINT watchdog_lease_ends_pkey PRIMARY KEY (lease, run_id, attempt);

ALTER TABLE ONLY public.watchdog_leases
    ADD CONSTRAINT watchdog_leases_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.watchdog_outbox
    ADD CONSTRAINT watchdog_outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.watchdog_schema
    ADD CONSTRAINT watchdog_schema_pkey PRIMARY KEY (version);

ALTER TABLE ONLY public.watchdog_sessions
    ADD CONSTRAINT watchdog_sessions_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY public.watchdog_slices
    ADD CONSTRAINT watchdog_slices_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.watchdog_spend
    ADD CONSTRAINT watchdog_spend_pkey PRIMARY KEY (scope, window_name);

CREATE INDEX watchdog_events_aggregate ON public.events USING btree (aggregate_type, aggregate_id, "timestamp");

CREATE INDEX watchdog_events_parent ON public.events USING btree ((
CASE
    WHEN (strpos((payload)::text, '\u'::text) > 0) THEN '\u'::text
    ELSE "left"((payload ->> 'parent'::text), 255)
END)) WHERE (((aggregate_type)::text = 'runtime_control'::text) AND (strpos((payload)::text, '"parent"'::text) > 0));

CREATE INDEX watchdog_events_type ON public.events USING btree (event_type);

CREATE UNIQUE INDEX watchdog_outbox_alert ON public.watchdog_outbox USING btree (event_id) WHERE alert;

CREATE INDEX watchdog_outbox_due ON public.watchdog_outbox USING btree (due_at, id);

CREATE INDEX watchdog_outbox_event ON public.watchdog_outbox USING btree (event_id);

CREATE INDEX watchdog_sessions_created ON public.watchdog_sessions USING btree (created_at DESC, run_id DESC);

CREATE INDEX watchdog_sessions_due ON public.watchdog_sessions USING btree (due, run_id) WHERE (((status)::text = 'active'::text) AND readable AND (lease IS NULL) AND (threshold > 0));

CREATE INDEX watchdog_sessions_host ON public.watchdog_sessions USING btree (host, created_at DESC, run_id DESC);

CREATE INDEX watchdog_sessions_lease ON public.watchdog_sessions USING btree (lease, run_id) WHERE (lease IS NOT NULL);

CREATE INDEX watchdog_sessions_live ON public.watchdog_sessions USING btree (created_at DESC, run_id DESC) WHERE ((status)::text = 'active'::text);

CREATE INDEX watchdog_sessions_parent ON public.watchdog_sessions USING btree (parent, created_at DESC, run_id DESC) WHERE ((parent)::text <> ''::text);

CREATE INDEX watchdog_sessions_quiet_due ON public.watchdog_sessions USING btree (lease, quiet_due, run_id) WHERE (quiet_due IS NOT NULL);

CREATE INDEX watchdog_sessions_quiet_since ON public.watchdog_sessions USING btree (lease, quiet_since, run_id) WHERE (quiet_since IS NOT NULL);

CREATE INDEX watchdog_sessions_silent ON public.watchdog_sessions USING btree (silent, run_id) WHERE (((status)::text = 'active'::text) AND readable AND (lease IS NULL) AND (threshold = 0));

CREATE INDEX watchdog_sessions_start ON public.watchdog_sessions USING btree (start_due, run_id) WHERE ((start_due IS NOT NULL) AND ((status)::text = 'cancelled'::text));

CREATE INDEX watchdog_sessions_unreadable ON public.watchdog_sessions USING btree (run_id) WHERE (((status)::text = 'active'::text) AND (NOT readable));

CREATE INDEX watchdog_slices_window ON public.watchdog_slices USING btree (scope, window_name);

ALTER TABLE ONLY public.watchdog_lease_ends
    ADD CONSTRAINT watchdog_lease_ends_lease_fkey FOREIGN KEY (lease) REFERENCES public.watchdog_leases(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.watchdog_sessions
    ADD CONSTRAINT watchdog_sessions_lease_fkey FOREIGN KEY (lease) REFERENCES public.watchdog_leases(id);

