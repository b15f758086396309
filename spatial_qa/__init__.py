"""Templates, options, checks, certificates, human review, export, scoring."""

from spatial_qa.ask import AskConfig, ask
from spatial_qa.certificates import OtherAnswer, Verification, answer_on, verify, verify_all
from spatial_qa.errors import QuestionError, QuestionFileError
from spatial_qa.io import audit, read_questions, write_questions
from spatial_qa.records import Certificate, Option, Question, QuestionScene, QuestionSet, Refusal

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
    "read_questions",
    "verify",
    "verify_all",
    "write_questions",
]
