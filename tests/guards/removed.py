"""Guards of the incidents, and how each is taken out: a test must fall without its guard.

A mutation replaces a text that occurs once in a file; `test_guards_removed.py` makes it in a copy
of the project, and writes what came of it into a table.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    """A guard that is taken out.

    Args:
        guard: What it holds, in a few words.
        file: Below `src/quantgrid`.
        old: A text of it that occurs once.
        new: What stands there without the guard.
        test: The test that must fall: file below `tests/incidents`, and name.
        also: Second guards that would stop it as well: file, text and what stands there without.
    """

    guard: str
    file: str
    old: str
    new: str
    test: str
    also: tuple[tuple[str, str, str], ...] = ()

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]:
        """All replacements: file, text, what stands there without the guard."""
        return ((self.file, self.old, self.new), *self.also)

    @property
    def node(self) -> str:
        """The test as pytest takes it."""
        return f"tests/incidents/{self.test}"


MUTATIONS = (
    Mutation(
        "a view that lacks sealed shards is refused",
        "corpus/view.py",
        "    shards.check_listing(folder, manifest)\n    return manifest",
        "    return manifest",
        "test_stale_view.py::test_stale_view_is_refused_when_one_shard_of_many_is_seen",
    ),
    Mutation(
        "plan and manifest that are not the sealed ones are refused",
        "corpus/view.py",
        '    compare(sealed, plan, DECLARED, "the plan", folder)\n'
        "    manifest = Manifest.read(folder)\n"
        "    seen = Statement.of(manifest, sealed.by, sealed.at)\n"
        '    compare(sealed, seen, STATED, "the manifest", folder)\n',
        "    manifest = Manifest.read(folder)\n",
        "test_stale_view.py::test_stale_view_is_refused_when_its_manifest_agrees_with_it",
    ),
    Mutation(
        "no more tokens than the declared passes hold",
        "corpus/passes.py",
        "    if planned_tokens <= allowed:\n        return\n",
        "    return\n",
        "test_stale_view.py::test_many_passes_are_refused_when_everything_else_agrees",
    ),
    Mutation(
        "a document may not deny what the archive holds",
        "claims/check.py",
        "    elif not said and is_absent and runs:\n",
        "    elif False:\n",
        "test_never_run.py::test_document_is_contradicted_when_the_archive_holds_the_grid",
    ),
    Mutation(
        "every attempt has a private copy of its folder",
        "own_stage/folder.py",
        "    folder.mkdir(parents=True)\n    seen = _look(source, script)\n",
        "    folder.parent.mkdir(parents=True, exist_ok=True)\n    folder.symlink_to(source)\n"
        "    return {}\n    seen = _look(source, script)\n",
        "test_scripts_beside_each_other.py::"
        "test_cells_keep_their_own_numbers_when_their_scripts_assume_to_be_alone",
    ),
    Mutation(
        "a create of unknown effect is looked for by name",
        "rental/steps.py",
        '    return at.claimed or replied or (at.machine.id if at.machine else "")\n',
        "    return replied\n",
        "test_rented_create.py::test_lost_reply_is_one_machine_when_the_create_was_done",
    ),
    Mutation(
        "nothing is created in another account",
        "rental/rounds.py",
        "        if self._account != wanted.account or not any(map(self._has_volume, volumes)):\n",
        "        if False:\n",
        "test_rented_create.py::test_nothing_is_created_when_it_is_another_place",
    ),
    Mutation(
        "what beats lives, whatever the platform says of it",
        "rental/steps.py",
        "    if silence_s <= _SILENT * at.terms.beat_s:"
        "  # it lives, whatever the platform says of it\n        return at.stay(looks=0)\n",
        "",
        "test_rented_watch.py::"
        "test_machine_is_untouched_when_the_platform_shows_it_no_more_but_it_beats",
    ),
    Mutation(
        "what is silent for long is ended, whatever the platform says of it",
        "rental/steps.py",
        "    if silence_s > at.terms.stall_s:\n        return at.ending(End.STALLED)\n",
        "",
        "test_rented_watch.py::test_machine_is_ended_when_it_is_silent_whatever_the_platform_says",
    ),
    Mutation(
        "a listing that was made while beats changed says nothing of a machine that runs",
        "rental/steps.py",
        "    if silence_s is None:"
        "  # it did beat, so this listing was made while its beats changed\n"
        "        return at.stay()\n",
        "    silence_s = at.age_s if silence_s is None else silence_s\n",
        "test_rented_watch.py::test_machine_is_untouched_when_a_listing_shows_none_of_its_beats",
    ),
    Mutation(
        "an end is believed after two looks at an age at which nothing hides",
        "rental/steps.py",
        "    if is_gone and looks >= _ABSENT and is_old:\n",
        "    if is_gone:\n",
        "test_rented_end.py::"
        "test_fresh_machine_is_ended_when_the_platform_says_that_it_is_not_there",
    ),
    Mutation(
        "without an exit record a machine was interrupted",
        "rental/steps.py",
        "        return End.INTERRUPTED if end in {End.DONE, End.FAILED} else end\n",
        "        return End.DONE\n",
        "test_rented_chain.py::test_end_is_an_interruption_when_no_record_says_more",
    ),
    Mutation(
        "a success needs records that were verified",
        "rental/steps.py",
        "    return End.UNVERIFIED if at.seen.verified is False else End.DONE\n",
        "    return End.DONE\n",
        "test_rented_chain.py::test_success_needs_verified_records_when_a_machine_says_that_it_is_done",
    ),
    Mutation(
        "two links without progress end a chain",
        "rental/chain.py",
        "        (End.NO_PROGRESS, lease.idle_links >= _IDLE_LINKS),\n",
        "",
        "test_rented_chain.py::test_chain_ends_when_two_links_bring_no_newer_checkpoint",
    ),
    Mutation(
        "a deadline counts on the monotonic clock from the store's time",
        "inside/times.py",
        "max(told.deadline - store_s, 0.0)",
        "max(told.deadline - clock.now().timestamp(), 0.0)",
        "test_rented_machine.py::test_deadline_holds_when_the_clock_of_the_container_is_wrong",
    ),
    Mutation(
        "secrets of the environment are masked",
        "masking.py",
        '        text = text.replace(part, f"[{name}]")\n',
        "        pass\n",
        "test_rented_secrets.py::test_secret_is_nowhere_when_a_task_tells_it_to_everybody",
    ),
    Mutation(
        "a result that cannot be deposited waits on the volume",
        "archive/waiting.py",
        "        raise _kept(root, key, fault, folder) from fault\n",
        "        raise\n",
        "test_expired_credentials.py::"
        "test_result_waits_and_is_deposited_when_credentials_expired_during_the_work",
    ),
    Mutation(
        "who launches a controller elsewhere ends nothing when it leaves",
        "rental/coordinating.py",
        "        atomic.publish_json(self.root / layout.COORDINATOR, told)\n",
        "        tenant.cancel()\n        self._settle(tenant)\n",
        "test_closed_laptop.py::test_coordinator_goes_on_alone_and_brings_its_log_home",
    ),
    Mutation(
        "a record is announced before it is put",
        "archive/index.py",
        '        self.store.put_once(f"{layout.INDEX_BEGUN}/{key}", b"")\n',
        "        pass\n",
        "test_lost_results.py::test_result_is_whole_or_absent_when_its_writer_dies_at_any_request",
    ),
    Mutation(
        "ends that nobody explains have a bound",
        "rental/chain.py",
        "        (End.INTERRUPTED, lease.interruptions > terms.max_interruptions),\n",
        "",
        "test_modal_bounds.py::test_sandboxes_are_bounded_when_each_ends_without_a_word",
    ),
    Mutation(
        "one app for ever, whatever the settings say",
        "rental/modal/__init__.py",
        "                    _app_name(owner),\n",
        "                    _app_name(owner) + self.place.volume_name,\n",
        "test_modal_create.py::test_sandboxes_are_found_when_every_setting_is_another",
    ),
    Mutation(
        "a sandbox asks for a fresh view of its volumes",
        "reload.py",
        '        modal.Sandbox.from_id(environment["MODAL_SANDBOX_ID"]).reload_volumes()\n',
        "        pass\n",
        "test_modal_views.py::test_view_is_fresh_after_a_reload_and_none_is_had_with_an_open_file",
    ),
    Mutation(
        "silence of a platform is no empty listing",
        "rental/rounds.py",
        "            return None\n        self._unanswered = 0\n",
        "            return ()\n        self._unanswered = 0\n",
        "test_name_server.py::test_jobs_are_untouched_when_the_platform_cannot_be_reached",
        also=(
            (
                "rental/steps.py",
                "    if silence_s <= _SILENT * at.terms.beat_s:"
                "  # it lives, whatever the platform says of it\n        return at.stay(looks=0)\n",
                "",
            ),
        ),
    ),
    Mutation(
        "room for a waiting record is taken before a script can fill the disk",
        "archive/waiting.py",
        "        os.posix_fallocate(file.fileno(), 0, _SPARE_BYTES)\n",
        "        pass\n",
        "test_no_room_at_the_end.py::test_result_waits_when_the_disk_is_full_at_the_end",
    ),
    Mutation(
        "what is missing of a manifest is named",
        "corpus/shards.py",
        "    if missing or extra:\n",
        "    expected = {name: expected[name] for name in expected.keys() & sizes}\n"
        "    if extra:\n",
        "test_one_shard_thirty_passes.py::"
        "test_a_third_of_the_shards_is_refused_when_nothing_else_would_tell",
    ),
    Mutation(
        "the kernel is asked how many it killed for memory",
        "oom.py",
        "    for path in [*_of_groups(root), root / VMSTAT]:\n",
        "    for path in list[Path]():\n",
        "test_out_of_memory.py::test_kill_for_memory_is_told_as_such_when_the_kernel_did_it",
    ),
    Mutation(
        "Ctrl-C ends no machine unasked",
        "rental/executor.py",
        "        if self.workflow.executor_settings.cancel_on_exit:\n",
        "        if True:\n",
        "test_rented_leaving.py::test_ctrl_c_leaves_the_machines_and_the_same_call_comes_back",
    ),
    Mutation(
        "a volume without a size is none",
        "rental/rounds.py",
        "            if facts and facts.size_bytes > 0:"
        "  # what is written to one without a size is lost\n",
        "            if True:\n",
        "test_runpod_accounts.py::"
        "test_nothing_is_created_when_the_volume_is_not_the_one_that_is_meant",
    ),
    Mutation(
        "a create without a whole reply may have been done",
        "rental/errors.py",
        "        return Trouble.AMBIGUOUS if is_create else Trouble.RETRY\n",
        "        return Trouble.RETRY\n",
        "test_runpod_calls.py::test_pod_is_one_when_its_create_seemed_to_fail_and_it_hides",
    ),
    Mutation(
        "a pod without its volume counts as ended",
        "rental/runpod/answers.py",
        "    if lack(pod):\n        state = MachineState.ENDED\n",
        "",
        "test_runpod_pods.py::test_pod_is_replaced_when_it_came_without_its_volume",
    ),
    Mutation(
        "a mount is asked for a fresh view",
        "reload.py",
        "        return lambda _: forget(address)\n",
        "        return lambda _: None\n",
        "test_stale_mount.py::test_stale_mount_is_refused_until_it_is_reloaded",
    ),
    Mutation(
        "a fresh view is asked for before anything is looked at",
        "corpus/view.py",
        "        reload(folder)\n        sealed = read_sentinel(sentinel)\n",
        "        sealed = read_sentinel(sentinel)\n",
        "test_stale_snapshot.py::test_snapshot_is_refused_until_it_is_taken_anew",
    ),
    Mutation(
        "a loss that is no number ends the cell",
        "watch/rules.py",
        "                if not math.isfinite(value):\n",
        "                if False:\n",
        "test_training_goes_wrong.py::test_cell_stops_and_a_person_hears_when_a_loss_is_no_number",
    ),
)
