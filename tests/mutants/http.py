"""Faults in the HTTP front end: framing, slow clients, limits, proxies."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_API = "tests/server/api/test_api.py"
_SOURCE = "src/oncebox/server/http"
_TESTS = "tests/server/http"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{_TESTS}/{file}.py::{name}" for name in names))


HTTP = (
    Mutant(
        "connections that are never closed for their slowness",
        (
            Patch(
                f"{_SOURCE}/server_state.py",
                "            connection.check_timeout(now)\n",
                "            pass\n",
            ),
        ),
        (
            _tests(
                "test_connections",
                "test_a_silent_connection_is_closed",
                "test_slow_headers_are_cut_off_however_steadily_they_drip",
                "test_a_slow_body_is_cut_off_and_never_whole",
                "test_a_client_that_does_not_read_is_let_go",
            ),
        ),
    ),
    Mutant(
        "a time limit for headers that every byte renews",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "            if self._unparsed and self.stage is not Stage.HEAD:\n",
                "            if self._unparsed:\n",
            ),
        ),
        (
            _tests(
                "test_connections",
                "test_slow_headers_are_cut_off_however_steadily_they_drip",
            ),
        ),
    ),
    Mutant(
        "our own work counted against the client",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "            self.stage = Stage.WORK\n            self._queue.pop(self, None)\n",
                "            self._queue[self] = None\n",
            ),
        ),
        (
            _tests(
                "test_connections",
                "test_work_of_ours_is_never_counted_against_the_client",
            ),
        ),
    ),
    Mutant(
        "new connections refused instead of slow ones evicted",
        (
            Patch(
                f"{_SOURCE}/server_state.py",
                "        if longest is None:\n            return False\n",
                "        if longest is None or newcomer is not None:\n            return False\n",
            ),
        ),
        (
            _tests(
                "test_connections",
                "test_who_waits_longest_gives_way_to_who_comes_new",
            ),
        ),
    ),
    Mutant(
        "bodies in chunks without a limit",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "        if self._is_too_large(self.body_size):\n"
                "            self.refuse(BodyTooLarge())\n"
                "        elif",
                "        if",
            ),
        ),
        (
            _tests(
                "test_limits",
                "test_a_giant_in_chunks_is_refused_while_it_comes_and_not_kept",
                "test_a_body_at_the_limit_is_taken_and_one_byte_more_is_not",
            ),
        ),
    ),
    Mutant(
        "a body behind an upgrade that is skipped",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "    return ChunkedBody(limits.size) if head.length is None else "
                "LengthBody(head.length)\n",
                '    if b"upgrade" in head.by_name:\n'
                "        return LengthBody(0)\n"
                "    return ChunkedBody(limits.size) if head.length is None else "
                "LengthBody(head.length)\n",
            ),
        ),
        (
            _tests(
                "test_framing",
                "test_upgrade_is_ignored_and_the_body_is_the_request_s",
            ),
            _tests(
                "test_request_parsing",
                "test_body_has_exactly_the_announced_bytes_and_what_follows_is_the_next_request",
            ),
        ),
    ),
    Mutant(
        "a part of a body that is taken for all of it",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "        if is_last and size != self.head.length and self.head.length is not None"
                ":\n"
                "            raise http_errors.RequestMalformed\n",
                "",
            ),
        ),
        (
            _tests(
                "test_framing",
                "test_body_of_another_length_than_announced_reaches_nobody",
            ),
        ),
    ),
    Mutant(
        "a part of a body from another server",
        (
            Patch(
                f"{_SOURCE}/asgi_app.py",
                "            if is_last and self._length not in {None, self._size}:\n"
                "                raise RequestMalformed\n",
                "",
            ),
        ),
        (
            _tests(
                "test_framing",
                "test_another_server_s_body_of_another_length_reaches_nobody",
            ),
        ),
    ),
    Mutant(
        "requests that are parsed before the last one is answered",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "                if exchange is None:\n"
                "                    data = self._parse_head(data)\n",
                "                if exchange is None or self._body.done:\n"
                "                    data = self._parse_head(data)\n",
            ),
        ),
        (
            _tests(
                "test_framing",
                "test_a_refusal_never_overtakes_the_answer_to_an_earlier_request",
            ),
            _tests(
                "test_exchanges",
                "test_handler_of_webhooks_may_answer_at_once_or_later",
            ),
        ),
    ),
    Mutant(
        "trailer fields that would frame or route a request",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                ' or match[1].lower().replace(b"_", b"-") in _NOT_IN_TRAILERS',
                "",
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_ambiguous_or_wrong_framing_is_malformed_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "a trailer of fields without a limit",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "            raise RequestMalformed\n        self._extra += len(line)\n",
                "            raise RequestMalformed\n",
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_head_extension_or_trailer_beyond_the_limit_is_too_large_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "a line without an end that is counted when it ends",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                '            size = (len(data) - data.endswith(b"\\r") if end < 0 else end) - at\n',
                "            size = 0 if end < 0 else end - at\n",
            ),
        ),
        (
            _tests(
                "test_trailers",
                "test_an_endless_trailer_costs_no_memory",
            ),
            _tests(
                "test_request_parsing",
                "test_head_extension_or_trailer_beyond_the_limit_is_too_large_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "a body in any number of chunks",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "        if self._chunks > _MAX_CHUNKS:\n            raise HeadersTooLarge\n",
                "",
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_number_of_chunks_has_a_limit",
            ),
        ),
    ),
    Mutant(
        "codings that are not chunked",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                ' or coding.lower() != b"chunked"',
                "",
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_ambiguous_or_wrong_framing_is_malformed_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "any version of HTTP",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "    if not version or not is_exact",
                "    if not is_exact",
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_ambiguous_or_wrong_framing_is_malformed_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "fields that occur twice",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "    if len(by_name) < len(fields) and _repeats_single(fields):\n"
                "        raise RequestMalformed\n",
                "",
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_ambiguous_or_wrong_framing_is_malformed_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "a reference cycle for every request",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "            await state.app(self._scope(), self.receive, self.send)\n",
                "            self._kept = self._scope()\n"
                "            await state.app(self._kept, self.receive, self.send)\n",
            ),
        ),
        (
            _tests(
                "test_limits",
                "test_a_request_leaves_no_garbage_behind",
            ),
        ),
    ),
    Mutant(
        "forwarded addresses that anybody may set",
        (
            Patch(
                f"{_SOURCE}/proxies.py",
                '        if not self.is_trusted(peer):\n            return peer, "http"\n',
                "",
            ),
        ),
        (
            _tests(
                "test_client_address",
                "test_nothing_a_stranger_sends_changes_who_he_is",
            ),
        ),
    ),
    Mutant(
        "a PROXY header that anybody may send",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "        self._needs_proxy_header = is_proxy and self._settings.proxy_protocol\n",
                "        self._needs_proxy_header = self._settings.proxy_protocol\n",
            ),
        ),
        (
            _tests(
                "test_exchanges",
                "test_proxy_protocol_is_read_from_trusted_proxies_only",
            ),
        ),
    ),
    Mutant(
        "no capacity reserved for webhooks and probes",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "reserved=is_intake or head.path in PROBE_PATHS",
                "reserved=False",
            ),
        ),
        (
            _tests(
                "test_exchanges",
                "test_webhooks_and_probes_are_served_when_the_api_is_busy",
            ),
        ),
    ),
    Mutant(
        "reading on while a request is worked on",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "        if len(data) > self._settings.headers:\n"
                "            self.pause_reading()\n",
                "",
            ),
        ),
        (
            _tests(
                "test_connections",
                "test_pipelining_does_not_let_a_client_run_ahead",
            ),
        ),
    ),
    Mutant(
        "responses prepared for a client that does not read",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "        elif self._drained is not None:\n            pass  # nothing more",
                "        elif self._drained is not None and not exchange.keep_alive:\n"
                "            pass  # nothing more",
            ),
        ),
        (
            _tests(
                "test_readers",
                "test_nothing_more_is_prepared_for_a_client_that_does_not_read",
            ),
        ),
    ),
    Mutant(
        "a reader that is never waited for",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "        if self._drained is not None:\n"
                "            self._wait_for_client(Stage.WRITE",
                "        if self._drained is not None and self.stage is Stage.WORK:\n"
                "            self._wait_for_client(Stage.WRITE",
            ),
        ),
        (
            _tests(
                "test_readers",
                "test_client_that_never_reads_is_let_go_although_its_body_has_just_ended",
            ),
        ),
    ),
    Mutant(
        "a slow reader that is cut off",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "        still_reads = self._unsent - unsent >= max(1, needed)\n",
                "        still_reads = self._unsent - unsent >= max(1 << 40, needed)\n",
            ),
        ),
        (
            _tests(
                "test_readers",
                "test_slow_reader_gets_a_large_response_whole",
            ),
        ),
    ),
    Mutant(
        "a body that nobody wants and nobody discards",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "            self.resume_reading()  # and discard the rest of the body\n",
                "            pass\n",
            ),
        ),
        (
            _tests(
                "test_readers",
                "test_large_body_that_the_application_does_not_want_is_discarded",
            ),
        ),
    ),
    Mutant(
        "a refused body that is kept",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "        self._unreceived = None  # nobody will receive it\n",
                "",
            ),
        ),
        (
            _tests(
                "test_readers",
                "test_refused_body_is_not_kept",
            ),
        ),
    ),
    Mutant(
        "an application that waits for a refused body",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "        self._wake()  # an application that still waits for the body\n",
                "",
            ),
        ),
        (
            _tests(
                "test_readers",
                "test_application_does_not_wait_for_a_body_that_was_refused",
            ),
        ),
    ),
    Mutant(
        "100 Continue within a response",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "if not (self.is_complete or self.status) and",
                "if not self.is_complete and",
            ),
        ),
        (
            _tests(
                "test_readers",
                "test_client_is_not_told_to_continue_within_a_response",
            ),
        ),
    ),
    Mutant(
        "a webhook handler that fails without an answer",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                '            state.telemetry.log.exception("request_failed", '
                "request=self.request_id)\n"
                "            self._fail()\n"
                "\n"
                "    def _count_body",
                '            state.telemetry.log.exception("request_failed", '
                "request=self.request_id)\n"
                "\n"
                "    def _count_body",
            ),
        ),
        (
            _tests(
                "test_readers",
                "test_webhook_handler_that_fails_is_answered_for",
            ),
        ),
    ),
    Mutant(
        "a streamed response cut by a half-close",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "        if not exchange.is_complete:\n"
                "            return False\n"
                "        exchange.close_client()\n",
                "        if not exchange.is_complete or exchange.status:\n"
                "            return False\n"
                "        exchange.close_client()\n",
            ),
        ),
        (
            _tests(
                "test_readers",
                "test_half_closed_client_gets_the_whole_of_a_streamed_response",
            ),
        ),
    ),
    Mutant(
        "an empty line in two packets",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                '        is_begun = data and data != b"\\r"\n',
                "        is_begun = data\n",
            ),
        ),
        (
            _tests(
                "test_oddities",
                "test_odd_request_gets_its_answer_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "blanks repeated in a request line",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "    if not version or not is_exact or not",
                "    if not version or not",
            ),
        ),
        (
            _tests(
                "test_oddities",
                "test_odd_request_gets_its_answer_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "framing fields with underscores",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "    if not _DISGUISED_FIELDS.isdisjoint(by_name) or not _is_host(",
                "    if not _is_host(",
            ),
        ),
        (
            _tests(
                "test_oddities",
                "test_odd_request_gets_its_answer_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "CONNECT",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                '    if method == "CONNECT":\n        raise RequestMalformed\n',
                "",
            ),
        ),
        (
            _tests(
                "test_oddities",
                "test_odd_request_gets_its_answer_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "an error that hides what came before it",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "                if not pieces:\n                    raise\n",
                "                raise\n",
            ),
        ),
        (
            _tests(
                "test_oddities",
                "test_odd_request_gets_its_answer_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "too large before malformed",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "    if _NO_HEAD.search(data, max(0, searched - 1), limits.size + 1):\n"
                "        raise RequestMalformed\n"
                "    if len(data) > limits.size:\n"
                "        raise HeadersTooLarge\n",
                "    if len(data) > limits.size:\n"
                "        raise HeadersTooLarge\n"
                "    if _NO_HEAD.search(data, max(0, searched - 1), limits.size + 1):\n"
                "        raise RequestMalformed\n",
            ),
        ),
        (
            _tests(
                "test_oddities",
                "test_odd_request_gets_its_answer_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "a Forwarded header with an open quote",
        (
            Patch(
                f"{_SOURCE}/proxies.py",
                '    if not _FORWARDED.fullmatch(line):\n        return [("", "")]\n',
                "",
            ),
        ),
        (
            _tests(
                "test_client_address",
                "test_client_cannot_forge_its_address_behind_a_proxy",
            ),
        ),
    ),
    Mutant(
        "only the last line of forwarded addresses",
        (
            Patch(
                f"{_SOURCE}/proxies.py",
                "for line in lines for hop in",
                "for line in lines[-1:] for hop in",
            ),
        ),
        (
            _tests(
                "test_client_address",
                "test_hops_on_several_lines_are_one_list",
            ),
        ),
    ),
    Mutant(
        "long forwarded headers that are remembered",
        (
            Patch(
                f"{_SOURCE}/proxies.py",
                "        find = self._remembered if is_short else self._find_client\n",
                "        find = self._remembered\n",
            ),
        ),
        (
            _tests(
                "test_client_address",
                "test_long_headers_are_not_remembered",
            ),
        ),
    ),
    Mutant(
        "PROXY headers of mixed families",
        (
            Patch(
                f"{_SOURCE}/proxies.py",
                "    if found.version != version:\n        raise ProxyHeaderError\n",
                "",
            ),
        ),
        (
            _tests(
                "test_client_address",
                "test_wrong_proxy_header_is_refused",
            ),
        ),
    ),
    Mutant(
        "another path for webhooks behind a proxy",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "        elif not is_intake or state.webhooks is None:\n",
                "        elif not is_intake or not state.webhooks or state.proxies:\n",
            ),
        ),
        (
            _tests(
                "test_exchanges",
                "test_webhooks_take_the_direct_path_behind_a_proxy_too",
            ),
        ),
    ),
    Mutant(
        "a repeated field of which the first is kept",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "    if line_ends != _CRLF * (len(by_sent_name) + 2):\n",
                '    if line_ends.replace(_CRLF, b""):\n',
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_fields_that_occur_several_times_are_all_there_and_in_order",
            ),
            _tests(
                "test_request_parsing",
                "test_ambiguous_or_wrong_framing_is_malformed_in_any_packets",
            ),
        ),
    ),
    Mutant(
        "a repeated field that is refused",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "        sent = _repeated_fields(head)\n",
                "        sent = list(by_sent_name.items())\n",
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_fields_that_occur_several_times_are_all_there_and_in_order",
            ),
        ),
    ),
    Mutant(
        "control characters in a head",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "    line_ends = head.translate(None, _TEXT_BYTES)\n",
                "    line_ends = _CRLF * head.count(_CRLF)\n",
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_control_characters_in_a_field_are_malformed_whatever_the_parser_lets_pass",
            ),
        ),
    ),
    Mutant(
        "control characters beside a repeated field",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "        if line_ends != _CRLF * (len(sent) + 2):\n",
                "        if head.count(_CRLF) != len(sent) + 2:\n",
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_control_characters_in_a_field_are_malformed_whatever_the_parser_lets_pass",
            ),
        ),
    ),
    Mutant(
        "lines of a head that are no field",
        (
            Patch(
                f"{_SOURCE}/request_parsing.py",
                "        if line_ends != _CRLF * (len(sent) + 2):\n",
                '        if line_ends.replace(_CRLF, b""):\n',
            ),
        ),
        (
            _tests(
                "test_request_parsing",
                "test_control_characters_in_a_field_are_malformed_whatever_the_parser_lets_pass",
            ),
        ),
    ),
    Mutant(
        "a body with a byte of the next request",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "            exchange.receive_body(data[:length], is_last=True)\n",
                "            exchange.receive_body(data[: length + 1], is_last=True)\n",
            ),
        ),
        (
            _tests(
                "test_framing",
                "test_body_that_comes_with_its_head_ends_where_the_next_request_begins",
            ),
        ),
    ),
    Mutant(
        "a body with a byte of the next request that is not refused",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "            exchange.receive_body(data[:length], is_last=True)\n",
                "            exchange.receive_body(data[: length + 1], is_last=True)\n",
            ),
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "        if is_last and size != self.head.length and self.head.length "
                "is not None:\n"
                "            raise http_errors.RequestMalformed\n",
                "",
            ),
        ),
        (
            _tests(
                "test_framing",
                "test_body_that_comes_with_its_head_ends_where_the_next_request_begins",
            ),
        ),
    ),
    Mutant(
        "a body that lacks its last byte",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "        if length is None or len(data) < length:\n",
                "        if length is None or len(data) < length - 1:\n",
            ),
        ),
        (
            _tests(
                "test_framing",
                "test_body_that_comes_with_its_head_ends_where_the_next_request_begins",
            ),
        ),
    ),
    Mutant(
        "a body that is also the next request",
        (
            Patch(
                f"{_SOURCE}/http_connection.py",
                "        self._finish_if_done()\n        return length\n",
                "        self._finish_if_done()\n        return 0\n",
            ),
        ),
        (
            _tests(
                "test_framing",
                "test_body_that_comes_with_its_head_ends_where_the_next_request_begins",
            ),
        ),
    ),
    Mutant(
        "a response with a length that is not its body's",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                '        if any(line.startswith(b"content-length:") for line in '
                "lines):\n"
                '            raise ValueError("a response has another length than its '
                'content-length")\n'
                "        lines.append(length)\n",
                '        if not any(line.startswith(b"content-length:") for line in '
                "lines):\n"
                "            lines.append(length)\n",
            ),
        ),
        (_tests("test_exchanges", "test_response_of_a_webhook_with_wrong_headers_is_not_sent"),),
    ),
    Mutant(
        "a response with two lengths",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                "    if size is not None and length not in lines:\n"
                '        if any(line.startswith(b"content-length:") for line in '
                "lines):\n"
                '            raise ValueError("a response has another length than its '
                'content-length")\n',
                "    if size is not None:\n",
            ),
        ),
        (
            _tests("test_exchanges", "test_response_of_a_webhook_with_wrong_headers_is_not_sent"),
            _tests("test_exchanges", "test_response_has_its_length_once"),
        ),
    ),
    Mutant(
        "a line break in a response header",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                '    if any(line.count(b"\\n") > 1 or line.count(b"\\r") > 1 for line in '
                "lines):\n"
                '        raise ValueError("a response header contains a line break")\n',
                "",
            ),
        ),
        (
            _tests("test_exchanges", "test_response_of_a_webhook_with_wrong_headers_is_not_sent"),
            _tests("test_exchanges", "test_line_break_in_a_response_header_is_not_sent"),
        ),
    ),
    Mutant(
        "half a line break in a response header",
        (
            Patch(
                f"{_SOURCE}/http_exchange.py",
                'line.count(b"\\n") > 1 or line.count(b"\\r") > 1 for',
                'line.count(b"\\r\\n") > 1 for',
            ),
        ),
        (_tests("test_exchanges", "test_response_of_a_webhook_with_wrong_headers_is_not_sent"),),
    ),
    Mutant(
        "requests that a stopping server cuts without a word",
        (
            Patch(
                f"{_SOURCE}/http_server.py",
                "            connection.end()\n",
                "            connection.abort()\n",
            ),
        ),
        (
            _tests(
                "test_connections",
                "test_what_a_stopping_server_does_not_serve_is_told_to_come_back",
            ),
        ),
    ),
    Mutant(
        "an unknown field whose name is repeated whatever it says",
        (
            Patch(
                f"{_SOURCE}/api_endpoint.py",
                "_PLAIN_FIELD.fullmatch(field[2])",
                "_PLAIN_FIELD.search(field[2])",
            ),
        ),
        (Selection((f"{_API}::test_an_unknown_field_that_is_no_plain_name_is_not_repeated",)),),
    ),
)
