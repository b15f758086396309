"""Templates, options, checks, certificates, human review, export, scoring."""

from spatial_qa.ask import AskConfig, ask
from spatial_qa.audit import audit
from spatial_qa.certificates import OtherAnswer, Verification, answer_on, verify, verify_all
from spatial_qa.errors import QuestionError, QuestionFileError
from spatial_qa.records import Certificate, Option, Question, QuestionScene, QuestionSet, Refusal
from spatial_qa.rows import question_from_row, question_to_row

__all__ = [
    "AskConfig",
    "Certificate",
    "Option",
    "OtherAnswer",
    "Question",
    "QuestionError",
    "QuestionFileError",
    "QuestionScene",
    "QuestionSet",
    "Refusal",
    "Verification",
    "answer_on",
    "ask",
    "audit",
    "question_from_row",
    "question_to_row",
    "verify",
    "verify_all",
]
