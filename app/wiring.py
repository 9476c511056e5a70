"""Which signal of a view leads to which intent of a controller. Knows nothing of what either of them does."""

from __future__ import annotations

from app.calibration_controller import CalibrationController
from app.controller import Controller
from app.conversation_controller import ConversationController
from app.find_controller import FindController
from app.models_controller import ModelsController
from app.reply_controller import ReplyController
from app.screen import Views
from app.training_controller import TrainingController


def connect_model(views: Views, controller: Controller) -> None:
    """The model and the settings."""
    views.window.painted.connect(controller.load)
    views.window.settings_requested.connect(controller.open_settings)
    views.window.stop_requested.connect(controller.stop)
    views.window.tint_toggled.connect(views.chat.set_tinted)
    views.window.acceptance_chosen.connect(controller.choose_acceptance)
    views.composer.stop_requested.connect(controller.stop)
    views.notices.way_chosen.connect(controller.take_way)
    views.panel.slow_toggled.connect(controller.toggle_slow)
    views.dialog.changed.connect(controller.change_setting)
    views.dialog.reload_requested.connect(controller.load)
    views.dialog.defaults_requested.connect(controller.restore_defaults)


def connect_replies(views: Views, replies: ReplyController) -> None:
    """Asking, and what can be done with a reply."""
    views.composer.submitted.connect(replies.send)
    views.chat.suggestion_chosen.connect(replies.send)
    views.chat.edited.connect(replies.edit)
    views.chat.regeneration_asked.connect(replies.regenerate)
    views.chat.continuation_asked.connect(replies.continue_reply)
    views.chat.step_chosen.connect(replies.show_step)
    views.panel.step_shown.connect(replies.hold_step)
    views.window.regenerate_requested.connect(replies.regenerate_last)


def connect_find(views: Views, find: FindController) -> None:
    """Finding in the open chat."""
    views.window.find_requested.connect(find.open)
    views.window.find_next_requested.connect(find.go_to_next)
    views.window.find_previous_requested.connect(find.go_to_previous)


def connect_conversations(views: Views, conversations: ConversationController) -> None:
    """The list, and what is shown of the open conversation."""
    views.window.new_chat_requested.connect(conversations.new_chat)
    views.window.search_requested.connect(views.sidebar.start_search)
    views.window.previous_variant_requested.connect(conversations.show_previous_variant)
    views.window.next_variant_requested.connect(conversations.show_next_variant)
    views.chat.variant_asked.connect(conversations.show_variant)
    views.chat.removal_asked.connect(conversations.remove_message)
    views.undo.undo_asked.connect(conversations.undo)
    views.sidebar.search_changed.connect(conversations.search)
    views.sidebar.opened.connect(conversations.open)
    views.sidebar.renamed.connect(conversations.rename)
    views.sidebar.pinning_asked.connect(conversations.pin)
    views.sidebar.duplicate_asked.connect(conversations.duplicate)
    views.sidebar.removal_asked.connect(conversations.remove)
    views.sidebar.all_removal_asked.connect(conversations.remove_all)
    views.sidebar.export_asked.connect(conversations.export)
    views.sidebar.import_asked.connect(conversations.import_file)


def connect_models(
    views: Views, models: ModelsController, training: TrainingController, calibration: CalibrationController
) -> None:
    """Models and their heads."""
    views.window.models_requested.connect(models.open)
    views.chat.models_asked.connect(models.open)
    views.window.training_requested.connect(training.open)
    models.training_asked.connect(training.open)
    calibration.due_changed.connect(training.show_calibration)
    training.calibration_asked.connect(calibration.calibrate)
